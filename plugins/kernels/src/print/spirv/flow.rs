//! Instructions in order, branches and loops.

use rspirv::dr::{Instruction as Word_, Operand};
use rspirv::spirv::{BuiltIn, Capability, LoopControl, MemorySemantics, Op, Scope, SelectionControl, Word};

use super::ids::{Kind, PointedTo, U32};
use super::{Printer, packed};
use crate::form::{Constant, Index, Instruction, Value};
use crate::scalar::Scalar;

impl Printer<'_> {
    /// Prints instructions.
    pub(super) fn block(&mut self, block: &[Instruction]) -> Result<(), String> {
        block.iter().try_for_each(|instruction| self.instruction(instruction))
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<(), String> {
        use Instruction as I;
        match instruction {
            I::Const { out, constant } => self.constant_value(*out, *constant),
            I::Unary { out, op, x } => self.each(*out, &[*x], |p, scalar, e| p.unary(*op, scalar, e))?,
            I::Binary { out, op, x, y } => {
                self.each(*out, &[*x, *y], |p, scalar, e| p.binary(*op, scalar, e))?
            }
            I::Fma { out, x, y, z } => self.each(*out, &[*x, *y, *z], |p, scalar, e| Ok(p.fma(scalar, e)))?,
            I::Compare { out, op, x, y } => {
                let scalar = self.type_of(*x).scalar;
                self.each(*out, &[*x, *y], |p, _, e| Ok(p.compare(*op, scalar, e)))?;
            }
            I::Select { out, condition, x, y } => {
                let conditions = self.value(*condition);
                let [x, y] = [*x, *y].map(|side| self.value(side));
                let pairs: Vec<(Word, Word)> = x.into_iter().zip(y).collect();
                let kind = self.kind(self.type_of(*out).scalar);
                let mut elements = Vec::with_capacity(pairs.len());
                for (place, (x, y)) in pairs.into_iter().enumerate() {
                    let condition = conditions.get(place).or(conditions.first()).copied().unwrap_or_default();
                    elements.push(self.op(Op::Select, kind, &[condition, x, y]));
                }
                self.assign(*out, elements);
            }
            I::Convert { out, x } => {
                if self.convert_halves(*out, *x) {
                    return Ok(());
                }
                let from = self.type_of(*x).scalar;
                self.each(*out, &[*x], |p, to, e| {
                    p.convert(from, to, e.first().copied().unwrap_or_default())
                })?;
            }
            I::Bits { out, x } => self.bits(*out, *x)?,
            I::Build { out, parts } => {
                if self.build_halves(*out, parts) {
                    return Ok(());
                }
                let elements = parts.iter().flat_map(|part| self.value(*part)).collect();
                self.assign(*out, elements);
            }
            I::Extract { out, x, lane } => {
                self.note_half(*out, *x, *lane);
                let element = self.element(*x, usize::from(*lane));
                self.assign(*out, vec![element]);
            }
            I::Index { out, index } => {
                let number = self.number_of(*index);
                self.assign(*out, vec![number]);
            }
            I::Number { out, parameter } => self.number(*out, parameter.0),
            I::Get { out, local } => {
                let variables = self.locals.get(local.0 as usize).cloned().unwrap_or_default();
                let elements = variables.into_iter().map(|variable| self.get(variable)).collect();
                match packed::words(self.type_of(*out)) {
                    Some(_) => self.assign_words(*out, elements),
                    None => self.assign(*out, elements),
                }
            }
            I::Set { local, x } => {
                let variables = self.locals.get(local.0 as usize).cloned().unwrap_or_default();
                let elements = match packed::words(self.type_of(*x)) {
                    Some(_) => self.words_of(*x),
                    None => self.value(*x),
                };
                for (variable, element) in variables.into_iter().zip(elements) {
                    self.set(variable, element);
                }
            }
            I::If { condition, then, otherwise } => self.branch(*condition, then, otherwise)?,
            I::For { var, start, end, step, body } => self.repeat(*var, [*start, *end, *step], body)?,
            I::Barrier => self.barrier(),
            I::ShuffleXor { out, x, mask } => {
                let mask = self.int(i64::from(*mask));
                self.shuffle(Op::GroupNonUniformShuffleXor, *out, *x, mask)?;
            }
            I::Shuffle { out, x, lane } => {
                let lane = self.single(*lane);
                self.shuffle(Op::GroupNonUniformShuffle, *out, *x, lane)?;
            }
            other => return self.memory_instruction(other),
        }
        Ok(())
    }

    /// Assigns a function of each element.
    fn each(
        &mut self,
        out: Value,
        operands: &[Value],
        mut function: impl FnMut(&mut Self, Scalar, &[Word]) -> Result<Word, String>,
    ) -> Result<(), String> {
        let type_ = self.type_of(out);
        let operands: Vec<Vec<Word>> = operands.iter().map(|operand| self.value(*operand)).collect();
        let mut elements = Vec::with_capacity(usize::from(type_.lanes));
        for lane in 0..usize::from(type_.lanes) {
            let own: Vec<Word> =
                operands.iter().map(|elements| elements.get(lane).copied().unwrap_or_default()).collect();
            elements.push(function(self, type_.scalar, &own)?);
        }
        self.assign(out, elements);
        Ok(())
    }

    fn constant_value(&mut self, out: Value, constant: Constant) {
        let type_ = self.type_of(out);
        let kind = self.kind(type_.scalar);
        let id = match (constant, kind) {
            (Constant::Float(number), Kind::Float(_)) => self.real(kind, number),
            (Constant::Int(number), Kind::Float(_)) => self.real(kind, number as f64),
            (Constant::Int(number), _) => {
                let mask = if kind == U32 { u64::from(u32::MAX) } else { u64::MAX };
                self.constant(kind, number.cast_unsigned() & mask)
            }
            (Constant::Float(number), _) => {
                self.constant(kind, super::convert::bits_of(number, type_.scalar))
            }
        };
        self.assign(out, vec![id; usize::from(type_.lanes)]);
    }

    /// A number of the thread.
    pub(super) fn number_of(&mut self, index: Index) -> Word {
        match index {
            Index::Lane if self.is_cooperative => {
                return self.of_subgroup(BuiltIn::SubgroupLocalInvocationId);
            }
            Index::Subgroup if self.is_cooperative => return self.of_subgroup(BuiltIn::SubgroupId),
            _ => {}
        }
        let mut axis = |builtin, axis: u32| {
            let triple = self.builtin(builtin, PointedTo::Triple);
            let type_ = self.type_id(U32);
            self.op_typed(
                Op::CompositeExtract,
                type_,
                vec![Operand::IdRef(triple), Operand::LiteralBit32(axis)],
            )
        };
        match index {
            Index::Thread => axis(BuiltIn::LocalInvocationId, 0),
            Index::Group(number) => axis(BuiltIn::WorkgroupId, u32::from(number)),
            // Not the device's subgroups: it may divide a workgroup otherwise than it says. Kernels whose tiles are of ordinary
            // instructions only need every thread to have a number of its own.
            Index::Lane => {
                let thread = axis(BuiltIn::LocalInvocationId, 0);
                self.whole(Op::UMod, thread, i64::from(self.kernel.subgroup))
            }
            Index::Subgroup => {
                let thread = axis(BuiltIn::LocalInvocationId, 0);
                self.whole(Op::UDiv, thread, i64::from(self.kernel.subgroup))
            }
        }
    }

    /// A number of the device's subgroups, which have the kernel's size where it has cooperative matrices.
    fn of_subgroup(&mut self, builtin: BuiltIn) -> Word {
        self.need(Capability::GroupNonUniform);
        self.builtin(builtin, PointedTo::Int(32))
    }

    fn number(&mut self, out: Value, parameter: u32) {
        let word = self.parameters.get(parameter as usize).copied().unwrap_or_default();
        let (scalar, _) = self.parameter_scalar(parameter);
        let element = match (scalar, self.kind(scalar)) {
            (Scalar::F64, Kind::Float(32)) => {
                let low = self.op(Op::UConvert, U32, &[word]);
                self.op(Op::Bitcast, Kind::Float(32), &[low])
            }
            (Scalar::F64, kind) => {
                self.need(Capability::Float64);
                self.op(Op::Bitcast, kind, &[word])
            }
            _ => word,
        };
        self.assign(out, vec![element]);
    }

    fn label(&mut self, label: Word) {
        self.body.push(Word_::new(Op::Label, None, Some(label), Vec::new()));
    }

    fn jump(&mut self, label: Word) {
        self.act(Op::Branch, vec![Operand::IdRef(label)]);
    }

    /// Branches on a condition, and continues behind both.
    pub(super) fn either(
        &mut self,
        condition: Word,
        then: impl FnOnce(&mut Self) -> Result<(), String>,
        otherwise: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let [yes, no, end] = [self.id(), self.id(), self.id()];
        let control = Operand::SelectionControl(SelectionControl::NONE);
        self.act(Op::SelectionMerge, vec![Operand::IdRef(end), control]);
        self.act(Op::BranchConditional, [condition, yes, no].map(Operand::IdRef).to_vec());
        self.label(yes);
        then(self)?;
        self.jump(end);
        self.label(no);
        otherwise(self)?;
        self.jump(end);
        self.label(end);
        Ok(())
    }

    fn branch(
        &mut self,
        condition: Value,
        then: &[Instruction],
        otherwise: &[Instruction],
    ) -> Result<(), String> {
        let condition = self.single(condition);
        self.either(condition, |p| p.block(then), |p| p.block(otherwise))
    }

    fn repeat(&mut self, var: Value, range: [Value; 3], body: &[Instruction]) -> Result<(), String> {
        let range = range.map(|value| self.single(value));
        self.count(range, |p, now| {
            p.assign(var, vec![now]);
            p.block(body)
        })
    }

    /// A loop over whole numbers.
    pub(super) fn count(
        &mut self,
        [start, end, step]: [Word; 3],
        body: impl FnOnce(&mut Self, Word) -> Result<(), String>,
    ) -> Result<(), String> {
        let variable = self.variable(U32);
        self.set(variable, start);
        let [head, check, inside, next, behind] = [(); 5].map(|()| self.id());
        self.jump(head);
        self.label(head);
        let control = Operand::LoopControl(LoopControl::NONE);
        self.act(Op::LoopMerge, vec![Operand::IdRef(behind), Operand::IdRef(next), control]);
        self.jump(check);
        self.label(check);
        let now = self.get(variable);
        let goes_on = self.op(Op::SLessThan, Kind::Bool, &[now, end]);
        self.act(Op::BranchConditional, [goes_on, inside, behind].map(Operand::IdRef).to_vec());
        self.label(inside);
        body(self, now)?;
        self.jump(next);
        self.label(next);
        let now = self.get(variable);
        let then = self.op(Op::IAdd, U32, &[now, step]);
        self.set(variable, then);
        self.jump(head);
        self.label(behind);
        Ok(())
    }

    fn scope(&mut self, scope: Scope) -> Operand {
        Operand::IdScope(self.int(i64::from(scope as u32)))
    }

    fn barrier(&mut self) {
        let mut semantics = MemorySemantics::ACQUIRE_RELEASE
            | MemorySemantics::WORKGROUP_MEMORY
            | MemorySemantics::UNIFORM_MEMORY;
        if self.is_cooperative {
            semantics |= MemorySemantics::MAKE_AVAILABLE | MemorySemantics::MAKE_VISIBLE;
        }
        let semantics = self.int(i64::from(semantics.bits()));
        let scope = self.scope(Scope::Workgroup);
        self.act(Op::ControlBarrier, vec![scope.clone(), scope, Operand::IdMemorySemantics(semantics)]);
    }

    fn shuffle(&mut self, op: Op, out: Value, x: Value, lane: Word) -> Result<(), String> {
        self.need(Capability::GroupNonUniform);
        self.need(Capability::GroupNonUniformShuffle);
        self.each(out, &[x], |p, scalar, elements| {
            let kind = p.kind(scalar);
            let type_ = p.type_id(kind);
            let scope = p.scope(Scope::Subgroup);
            let element = elements.first().copied().unwrap_or_default();
            Ok(p.op_typed(op, type_, vec![scope, Operand::IdRef(element), Operand::IdRef(lane)]))
        })
    }
}
