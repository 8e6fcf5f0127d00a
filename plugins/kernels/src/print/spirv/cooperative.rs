//! Matrix tiles as cooperative matrices, which the threads of a subgroup hold together.

use rspirv::dr::Operand;
use rspirv::spirv::{
    Capability, CooperativeMatrixLayout, CooperativeMatrixOperands, CooperativeMatrixUse, Op, Scope,
    StorageClass, Word,
};

use super::Printer;
use super::ids::{Element, Kind, MatrixKind, U32};
use crate::form::{Instruction, Memory, Order, Role, Tile, Value};
use crate::scalar::Scalar;
use crate::target::{MatrixInstruction, MatrixShape};

/// The type of a matrix.
fn matrix(shape: &MatrixShape, role: Role) -> Result<MatrixKind, String> {
    let element = match (shape.scalar(role), role, shape.operand) {
        (Scalar::F16, ..) => Element::F16,
        (Scalar::Bf16, ..) => Element::Bf16,
        (Scalar::F32, ..) => Element::F32,
        (Scalar::I8, ..) => Element::I8,
        (Scalar::U8, ..) => Element::U8,
        // Sums have a sign where operands do.
        (Scalar::I32, _, Scalar::U8) => Element::U32,
        (Scalar::I32, ..) => Element::I32,
        (other, ..) => return Err(format!("a cooperative matrix of {}", other.name())),
    };
    let (rows, columns) = shape.dims(role);
    Ok(MatrixKind { element, rows, columns, role })
}

impl Printer<'_> {
    /// Checks that the device has what matrices need, and declares it.
    pub(super) fn declare_matrices(&mut self) -> Result<(), String> {
        if !self.is_cooperative {
            return Ok(());
        }
        if !self.features.cooperative_matrix {
            return Err("the device lacks cooperativeMatrix or vulkanMemoryModel".to_owned());
        }
        self.need(Capability::CooperativeMatrixKHR);
        self.need(Capability::VulkanMemoryModel);
        self.extensions.push("SPV_KHR_cooperative_matrix");
        for shape in &self.kernel.shapes {
            if shape.instruction != MatrixInstruction::Cooperative {
                continue;
            }
            match shape.operand {
                Scalar::Bf16 if !self.features.shader_bfloat16_cooperative_matrix => {
                    return Err("the device lacks shaderBFloat16CooperativeMatrix".to_owned());
                }
                Scalar::F16 if !self.features.shader_float16 => {
                    return Err("the device lacks shaderFloat16".to_owned());
                }
                Scalar::Bf16 => {
                    self.need_bfloats();
                    self.need(Capability::BFloat16CooperativeMatrixKHR);
                }
                Scalar::F16 => self.need(Capability::Float16),
                Scalar::I8 | Scalar::U8 => self.need_bits(8)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The operands of a matrix's type.
    pub(super) fn matrix_operands(&mut self, matrix: MatrixKind) -> Vec<Operand> {
        let use_ = match matrix.role {
            Role::A => CooperativeMatrixUse::MatrixAKHR,
            Role::B => CooperativeMatrixUse::MatrixBKHR,
            Role::Accumulator => CooperativeMatrixUse::MatrixAccumulatorKHR,
        };
        let element = self.type_id(matrix.element.into());
        let numbers = [Scope::Subgroup as u32, matrix.rows, matrix.columns, use_ as u32];
        let [scope, rows, columns, use_] = numbers.map(|number| self.int(i64::from(number)));
        let ids = [rows, columns, use_].map(Operand::IdRef);
        [vec![Operand::IdRef(element), Operand::IdScope(scope)], ids.to_vec()].concat()
    }

    /// Whether a tile is a cooperative matrix.
    pub(super) fn is_matrix(&self, tile: Tile) -> bool {
        self.held(tile).is_ok()
    }

    /// The variable of a matrix.
    pub(super) fn matrix_variable(
        &mut self,
        shape: &MatrixShape,
        role: Role,
    ) -> Result<(Word, Kind), String> {
        let kind = Kind::Matrix(matrix(shape, role)?);
        Ok(self.variable(kind))
    }

    fn held(&self, tile: Tile) -> Result<((Word, Kind), MatrixKind), String> {
        let variable = self.tiles.get(tile.0 as usize).and_then(|variables| variables.first());
        match variable {
            Some((id, Kind::Matrix(matrix))) => Ok(((*id, Kind::Matrix(*matrix)), *matrix)),
            _ => Err("a tile is no cooperative matrix".to_owned()),
        }
    }

    /// Prints an instruction on cooperative matrices.
    pub(super) fn matrix_instruction(&mut self, instruction: &Instruction) -> Result<(), String> {
        use Instruction as I;
        match instruction {
            I::TileFill { tile, x } => {
                let (variable, matrix) = self.held(*tile)?;
                let scalar = self.type_of(*x).scalar;
                let x = self.single(*x);
                let x = self.matrix_element(x, scalar, matrix.element)?;
                let filled = self.op(Op::CompositeConstruct, variable.1, &[x]);
                self.set(variable, filled);
            }
            I::TileLoad { tile, memory, index, stride, order, .. } => {
                let (variable, _) = self.held(*tile)?;
                let [at, layout, stride] = self.matrix_place(*memory, [*index, *stride], *order)?;
                let type_ = self.type_id(variable.1);
                let operands = [vec![at, layout, stride], self.seen_by_others()].concat();
                let loaded = self.op_typed(Op::CooperativeMatrixLoadKHR, type_, operands);
                self.set(variable, loaded);
            }
            I::TileStore { tile, memory, index, stride, order, .. } => {
                let (variable, _) = self.held(*tile)?;
                let [at, layout, stride] = self.matrix_place(*memory, [*index, *stride], *order)?;
                let stored = self.get(variable);
                let operands =
                    [vec![at, Operand::IdRef(stored), layout, stride], self.seen_by_others()].concat();
                self.act(Op::CooperativeMatrixStoreKHR, operands);
            }
            I::TileMultiply { sum, a, b } => {
                let (to, matrix) = self.held(*sum)?;
                let [(a, _), (b, _)] = [self.held(*a)?, self.held(*b)?];
                let [a, b, so_far] = [a, b, to].map(|variable| self.get(variable));
                let mut operands = [a, b, so_far].map(Operand::IdRef).to_vec();
                if matrix.element == Element::I32 {
                    use CooperativeMatrixOperands as O;
                    let signs = O::MATRIX_A_SIGNED_COMPONENTS_KHR
                        | O::MATRIX_B_SIGNED_COMPONENTS_KHR
                        | O::MATRIX_C_SIGNED_COMPONENTS_KHR
                        | O::MATRIX_RESULT_SIGNED_COMPONENTS_KHR;
                    operands.push(Operand::CooperativeMatrixOperands(signs));
                }
                let type_ = self.type_id(to.1);
                let total = self.op_typed(Op::CooperativeMatrixMulAddKHR, type_, operands);
                self.set(to, total);
            }
            I::TileGet { out, tile, slot } => {
                let (variable, matrix) = self.held(*tile)?;
                let slot = self.int(i64::from(*slot));
                let x = self.component(variable.0, matrix.element, slot)?;
                self.assign(*out, vec![x]);
            }
            I::TileSet { tile, slot, x } => {
                let (variable, matrix) = self.held(*tile)?;
                let slot = self.int(i64::from(*slot));
                let float = self.rounded.get(&x.0).copied();
                let x = match (matrix.element, self.halves.get(&x.0).copied(), float) {
                    (Element::F16, Some((word, place)), _) => self.half_of(word, place),
                    (Element::Bf16, _, Some(float)) if self.features.shader_bfloat16_type => {
                        self.op(Op::FConvert, Kind::Bfloat, &[float])
                    }
                    _ => {
                        let scalar = self.type_of(*x).scalar;
                        let x = self.single(*x);
                        self.matrix_element(x, scalar, matrix.element)?
                    }
                };
                self.set_component(variable.0, matrix.element, slot, x);
            }
            I::TileMap { tile, element, body, result } => {
                let (variable, matrix) = self.held(*tile)?;
                let type_ = self.type_id(variable.1);
                let length = self.op(Op::CooperativeMatrixLengthKHR, U32, &[type_]);
                let [first, step] = [0, 1].map(|number| self.int(number));
                self.count([first, length, step], |p, slot| {
                    let own = p.component(variable.0, matrix.element, slot)?;
                    p.assign(*element, vec![own]);
                    p.block(body)?;
                    let scalar = p.type_of(*result).scalar;
                    let x = p.single(*result);
                    let x = p.matrix_element(x, scalar, matrix.element)?;
                    p.set_component(variable.0, matrix.element, slot, x);
                    Ok(())
                })?;
            }
            other => return Err(format!("{other:?} has no form in SPIR-V")),
        }
        Ok(())
    }

    /// An element as matrices hold it.
    fn matrix_element(&mut self, x: Word, scalar: Scalar, element: Element) -> Result<Word, String> {
        Ok(match element {
            Element::F32 | Element::U32 => x,
            Element::I32 => self.op(Op::Bitcast, element.into(), &[x]),
            Element::F16 => self.half_of(x, 0),
            Element::Bf16 | Element::I8 | Element::U8 => {
                let size = 8 * scalar.size() as u32;
                self.need_bits(size)?;
                let narrow = self.op(Op::UConvert, Kind::Int(size), &[x]);
                if element == Element::U8 { narrow } else { self.op(Op::Bitcast, element.into(), &[narrow]) }
            }
        })
    }

    /// An element that a matrix holds, as a value in a register.
    fn component(&mut self, matrix: Word, element: Element, slot: Word) -> Result<Word, String> {
        let at = self.component_at(matrix, element, slot);
        let x = self.get((at, element.into()));
        Ok(match element {
            Element::F32 | Element::U32 => x,
            Element::I32 => self.op(Op::Bitcast, U32, &[x]),
            Element::F16 => self.word_of_half(x),
            Element::I8 => {
                self.need_bits(8)?;
                let wide = self.op(Op::SConvert, Kind::Signed(32), &[x]);
                self.op(Op::Bitcast, U32, &[wide])
            }
            Element::U8 | Element::Bf16 => {
                let size = if element == Element::U8 { 8 } else { 16 };
                self.need_bits(size)?;
                let bits = if size == 8 { x } else { self.op(Op::Bitcast, Kind::Int(size), &[x]) };
                self.op(Op::UConvert, U32, &[bits])
            }
        })
    }

    fn set_component(&mut self, matrix: Word, element: Element, slot: Word, x: Word) {
        let at = self.component_at(matrix, element, slot);
        self.set((at, element.into()), x);
    }

    /// A pointer to an element that a matrix holds.
    fn component_at(&mut self, matrix: Word, element: Element, slot: Word) -> Word {
        let kind: Kind = element.into();
        let to = self.pointed_to(kind);
        self.op(Op::AccessChain, Kind::Pointer(StorageClass::Function, to), &[matrix, slot])
    }

    /// The place of a matrix in shared memory: a pointer, the layout, and the stride in the array's units.
    fn matrix_place(
        &mut self,
        memory: Memory,
        [index, stride]: [Value; 2],
        order: Order,
    ) -> Result<[Operand; 3], String> {
        let Memory::Shared(shared) = memory else {
            return Err("a cooperative matrix in global memory has no form in SPIR-V".to_owned());
        };
        let [index, stride] = [self.single(index), self.single(stride)];
        let (at, _) = self.shared_at(shared, index)?;
        let (scalar, unit) = self.shared_unit(shared)?;
        let stride = self.in_units(stride, scalar, unit);
        let layout = match order {
            Order::Rows => CooperativeMatrixLayout::RowMajorKHR,
            Order::Columns => CooperativeMatrixLayout::ColumnMajorKHR,
        };
        let layout = self.int(i64::from(layout as u32));
        Ok([at, layout, stride].map(Operand::IdRef))
    }
}
