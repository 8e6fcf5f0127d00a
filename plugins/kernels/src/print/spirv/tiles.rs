//! Matrix tiles of ordinary instructions: each thread holds some elements in variables. Cooperative matrices are in [`super::cooperative`].

use std::collections::HashMap;

use rspirv::spirv::{GlslStd450Op, Op, Word};

use super::Printer;
use super::ids::{Kind, U32};
use super::shared::Loaded;
use crate::form::{Index, Instruction, Memory, Order, Role, Tile, Value};
use crate::scalar::Scalar;
use crate::target::{Fragment, LanePart, MatrixInstruction, MatrixShape};

impl Printer<'_> {
    /// Makes the variables of all tiles.
    pub(super) fn make_tiles(&mut self) -> Result<(), String> {
        for tile in self.kernel.tiles.clone() {
            let shape = self.kernel.shapes.get(tile.shape as usize).cloned();
            if let Some(shape) =
                shape.as_ref().filter(|shape| shape.instruction == MatrixInstruction::Cooperative)
            {
                let variable = self.matrix_variable(shape, tile.role)?;
                self.tiles.push(vec![variable]);
                continue;
            }
            let count = shape
                .as_ref()
                .and_then(|shape| shape.fragment(tile.role))
                .map_or(0, |fragment| fragment.slots.len());
            let kind = self.kind(shape.map_or(Scalar::F32, |shape| shape.scalar(tile.role)));
            let variables = (0..count).map(|_| self.variable(kind)).collect();
            self.tiles.push(variables);
        }
        Ok(())
    }

    /// The role, shape and places of a tile.
    fn tile_of(&self, tile: Tile) -> Result<(Role, &MatrixShape, &Fragment), String> {
        let type_ =
            self.kernel.tiles.get(tile.0 as usize).ok_or("the kernel names a tile that it does not have")?;
        let shape = self.kernel.shapes.get(type_.shape as usize).ok_or("a tile has no shape")?;
        if shape.instruction != MatrixInstruction::Plain {
            return Err(format!("{:?} has no form in SPIR-V", shape.instruction));
        }
        let fragment =
            shape.fragment(type_.role).ok_or("a plain tile does not say where its elements are")?;
        Ok((type_.role, shape, fragment))
    }

    fn slots(&self, tile: Tile) -> Vec<(Word, Kind)> {
        self.tiles.get(tile.0 as usize).cloned().unwrap_or_default()
    }

    pub(super) fn tile_instruction(&mut self, instruction: &Instruction) -> Result<(), String> {
        use Instruction as I;
        let tile = match instruction {
            I::TileFill { tile, .. }
            | I::TileLoad { tile, .. }
            | I::TileStore { tile, .. }
            | I::TileMultiply { sum: tile, .. }
            | I::TileGet { tile, .. }
            | I::TileSet { tile, .. }
            | I::TileMap { tile, .. } => *tile,
            other => return Err(format!("{other:?} has no form in SPIR-V")),
        };
        if self.is_matrix(tile) {
            return self.matrix_instruction(instruction);
        }
        match instruction {
            I::TileFill { tile, x } => {
                let x = self.single(*x);
                for slot in self.slots(*tile) {
                    self.set(slot, x);
                }
            }
            I::TileLoad { tile, memory, index, stride, order, .. } => {
                self.tile_move(*tile, *memory, [*index, *stride], *order, true)?;
            }
            I::TileStore { tile, memory, index, stride, order, .. } => {
                self.tile_move(*tile, *memory, [*index, *stride], *order, false)?;
            }
            I::TileMultiply { sum, a, b } => self.tile_multiply(*sum, *a, *b)?,
            I::TileGet { out, tile, slot } => {
                let variable = self.slots(*tile).get(usize::from(*slot)).copied();
                let element = variable.map(|variable| self.get(variable)).unwrap_or_default();
                self.assign(*out, vec![element]);
            }
            I::TileSet { tile, slot, x } => {
                if let Some(variable) = self.slots(*tile).get(usize::from(*slot)).copied() {
                    let x = self.single(*x);
                    self.set(variable, x);
                }
            }
            I::TileMap { tile, element, body, result } => {
                for slot in self.slots(*tile) {
                    let own = self.get(slot);
                    self.assign(*element, vec![own]);
                    self.block(body)?;
                    let changed = self.single(*result);
                    self.set(slot, changed);
                }
            }
            other => return Err(format!("{other:?} has no form in SPIR-V")),
        }
        Ok(())
    }

    /// What a lane adds to a row or column.
    fn lane_part(&mut self, lane: Word, part: LanePart) -> Word {
        if part.factor == 0 || part.modulus == 1 {
            return self.int(0);
        }
        let own = self.whole(Op::UDiv, lane, i64::from(part.divisor));
        let own = self.whole(Op::UMod, own, i64::from(part.modulus));
        self.whole(Op::IMul, own, i64::from(part.factor))
    }

    fn lane(&mut self) -> Word {
        self.number_of(Index::Lane)
    }

    /// Loads or stores the thread's elements.
    fn tile_move(
        &mut self,
        tile: Tile,
        memory: Memory,
        [index, stride]: [Value; 2],
        order: Order,
        loads: bool,
    ) -> Result<(), String> {
        let (role, shape, fragment) = self.tile_of(tile)?;
        let (scalar, fragment) = (shape.scalar(role), fragment.clone());
        let lane = self.lane();
        let [row, column] = [fragment.row, fragment.column].map(|part| self.lane_part(lane, part));
        let [index, stride] = [self.single(index), self.single(stride)];
        let (far, near) = match order {
            Order::Rows => (row, column),
            Order::Columns => (column, row),
        };
        let far = self.op(Op::IMul, U32, &[far, stride]);
        let start = self.op(Op::IAdd, U32, &[index, far]);
        let start = self.op(Op::IAdd, U32, &[start, near]);
        let mut lines: HashMap<u32, Word> = HashMap::new();
        for (variable, (r, c)) in self.slots(tile).into_iter().zip(&fragment.slots) {
            let (far, near) = match order {
                Order::Rows => (*r, *c),
                Order::Columns => (*c, *r),
            };
            let line = match lines.get(&far) {
                Some(line) => *line,
                None => {
                    let distance = self.whole(Op::IMul, stride, i64::from(far));
                    let line = self.op(Op::IAdd, U32, &[start, distance]);
                    lines.insert(far, line);
                    line
                }
            };
            let at = self.further((line, U32), near as usize);
            if loads {
                let element = self.load_one(memory, at, scalar)?;
                self.set(variable, element);
            } else {
                let element = self.get(variable);
                self.store(memory, at, scalar.into(), Loaded::Elements(vec![element]))?;
            }
        }
        Ok(())
    }

    /// sum += a · b, of the thread's own rows and columns.
    fn tile_multiply(&mut self, sum: Tile, a: Tile, b: Tile) -> Result<(), String> {
        let (_, shape, sums) = self.tile_of(sum)?;
        let (to, sums) = (shape.sum, sums.slots.clone());
        let mut operands: Vec<HashMap<(u32, u32), Word>> = Vec::new();
        for tile in [a, b] {
            let (role, shape, fragment) = self.tile_of(tile)?;
            let (from, slots) = (shape.scalar(role), fragment.slots.clone());
            let mut elements = HashMap::with_capacity(slots.len());
            for (variable, place) in self.slots(tile).into_iter().zip(slots) {
                let own = self.get(variable);
                elements.insert(place, self.convert(from, to, own)?);
            }
            operands.push(elements);
        }
        let [left, right] = operands.as_slice() else { return Err("a product has two operands".to_owned()) };
        let depth = left.keys().map(|(_, k)| k + 1).max().unwrap_or(0);
        let kind = self.kind(to);
        for (variable, (r, c)) in self.slots(sum).into_iter().zip(sums) {
            let mut total = self.get(variable);
            for k in 0..depth {
                let (Some(x), Some(y)) = (left.get(&(r, k)), right.get(&(k, c))) else { continue };
                total = match kind {
                    Kind::Float(_) => self.glsl(GlslStd450Op::Fma, kind, &[*x, *y, total]),
                    _ => {
                        let product = self.op(Op::IMul, kind, &[*x, *y]);
                        self.op(Op::IAdd, kind, &[total, product])
                    }
                };
            }
            self.set(variable, total);
        }
        Ok(())
    }
}
