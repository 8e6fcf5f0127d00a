//! Matrix tiles in C++: each thread's slots as a vector (HIP), as registers of 32 bits (operands of `mma.sync`), or as an array.

use super::spelling::type_name;
use super::{Printer, line, tag};
use crate::form::{Instruction, Memory, Order, Role, Tile, Value};
use crate::scalar::Scalar;
use crate::target::{Fragment, LanePart, MatrixInstruction, MatrixShape};

/// How a tile's slots are held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holding {
    /// As an array, or a vector with the same syntax.
    Elements,
    /// As registers of 32 bits.
    Registers,
}

/// Slots that are neighbours in memory.
struct Run {
    first: usize,
    count: usize,
}

impl Printer<'_> {
    fn tile(&self, tile: Tile) -> Option<(Role, &MatrixShape, &Fragment)> {
        let type_ = self.kernel.tiles.get(tile.0 as usize)?;
        let shape = self.kernel.shapes.get(type_.shape as usize)?;
        Some((type_.role, shape, shape.fragment(type_.role)?))
    }

    fn holding(role: Role, shape: &MatrixShape) -> Holding {
        let registers = shape.instruction == MatrixInstruction::MmaSync && role != Role::Accumulator;
        if registers { Holding::Registers } else { Holding::Elements }
    }

    pub(super) fn declare_tile(&mut self, place: usize) {
        let Some((role, shape, fragment)) = self.tile(Tile(place as u32)) else { return };
        let (slots, scalar) = (fragment.slots.len(), shape.scalar(role));
        let name = type_name(scalar.into());
        let text = match (Self::holding(role, shape), shape.instruction) {
            (Holding::Registers, _) => format!("unsigned t{place}[{}] = {{}};", slots * scalar.size() / 4),
            (_, MatrixInstruction::Plain | MatrixInstruction::MmaSync) => {
                format!("{name} t{place}[{slots}];")
            }
            _ => format!("vector_n<{name}, {slots}> t{place};"),
        };
        line!(self, "{text}");
    }

    fn lane_part(part: LanePart) -> String {
        if part.factor == 0 || part.modulus == 1 {
            return "0".to_owned();
        }
        format!("(int)((unsigned)lane / {}u % {}u * {}u)", part.divisor, part.modulus, part.factor)
    }

    /// Runs of slots that are neighbours in memory, at most `most` elements and aligned to their length.
    fn runs(fragment: &Fragment, order: Order, most: usize) -> Vec<Run> {
        let minor = |(row, column): (u32, u32)| if order == Order::Rows { column } else { row };
        let major = |(row, column): (u32, u32)| if order == Order::Rows { row } else { column };
        let part = if order == Order::Rows { fragment.column } else { fragment.row };
        let mut most = most;
        // The lane's part keeps runs aligned.
        while most > 1 && part.modulus > 1 && !(part.factor as usize).is_multiple_of(most) {
            most /= 2;
        }
        let mut runs = Vec::new();
        let mut first = 0;
        while let Some(start) = fragment.slots.get(first) {
            let fits = |count: usize| {
                (minor(*start) as usize).is_multiple_of(count)
                    && (1..count).all(|i| {
                        fragment.slots.get(first + i).is_some_and(|slot| {
                            major(*slot) == major(*start) && minor(*slot) == minor(*start) + i as u32
                        })
                    })
            };
            let mut count = most;
            while count > 1 && !fits(count) {
                count /= 2;
            }
            runs.push(Run { first, count });
            first += count;
        }
        runs
    }

    /// The offset of a slot from the thread's own first element.
    fn offset(fragment: &Fragment, slot: usize, order: Order, stride: &str) -> String {
        let (row, column) = fragment.slots.get(slot).copied().unwrap_or_default();
        let (major, minor) = if order == Order::Rows { (row, column) } else { (column, row) };
        match (major, minor) {
            (0, minor) => format!("own + {minor}"),
            (major, minor) => format!("own + {major} * {stride} + {minor}"),
        }
    }

    /// The index of the thread's first element.
    fn own(&mut self, fragment: &Fragment, index: Value, stride: Value, order: Order) {
        let (row, column) = (Self::lane_part(fragment.row), Self::lane_part(fragment.column));
        let (major, minor) = if order == Order::Rows { (row, column) } else { (column, row) };
        let (index, stride) = (self.v(index), self.v(stride));
        line!(self, "const int own = {index} + {major} * {stride} + {minor};");
    }

    fn element(role: Role, shape: &MatrixShape, tile: Tile, slot: usize) -> String {
        let name = format!("t{}", tile.0);
        if Self::holding(role, shape) == Holding::Elements {
            return format!("{name}[{slot}]");
        }
        let scalar = shape.scalar(role);
        let each = 4 / scalar.size();
        let bits = 8 * scalar.size() * (slot % each);
        format!("({})({name}[{}] >> {bits})", type_name(scalar.into()), slot / each)
    }

    fn set_element(&mut self, tile: Tile, slot: usize, x: &str) {
        let Some((role, shape, _)) = self.tile(tile) else { return };
        let scalar = shape.scalar(role);
        if Self::holding(role, shape) == Holding::Elements {
            line!(self, "t{}[{slot}] = {x};", tile.0);
            return;
        }
        let each = 4 / scalar.size();
        let bits = 8 * scalar.size() * (slot % each);
        let mask = (if scalar.size() == 2 { 0xffff_u32 } else { 0xff }) << bits;
        let unsigned = if scalar.size() == 2 { "unsigned short" } else { "unsigned char" };
        let register = format!("t{}[{}]", tile.0, slot / each);
        line!(self, "{register} = ({register} & {}u) | (unsigned)({unsigned}){x} << {bits};", !mask);
    }

    /// Whether `ldmatrix` loads a tile, and whether it turns it.
    fn matrices(
        shape: &MatrixShape,
        role: Role,
        memory: Memory,
        order: Order,
        aligned: usize,
    ) -> Option<bool> {
        let size = shape.operand.size();
        let fits = shape.instruction == MatrixInstruction::MmaSync
            && role != Role::Accumulator
            && matches!(memory, Memory::Shared(_))
            && (aligned * size).is_multiple_of(16);
        let turned = (role == Role::A) != (order == Order::Rows);
        (fits && (!turned || size == 2)).then_some(turned)
    }

    fn load(
        &mut self,
        tile: Tile,
        memory: Memory,
        [index, stride]: [Value; 2],
        order: Order,
        aligned: usize,
    ) {
        let Some((role, shape, fragment)) = self.tile(tile) else { return };
        let (shape, fragment) = (shape.clone(), fragment.clone());
        let scalar = shape.scalar(role);
        let name = self.memory(memory);
        let steps = self.v(stride);
        if let Some(turned) = Self::matrices(&shape, role, memory, order, aligned) {
            let index = self.v(index);
            let units = 16 / scalar.size();
            // A's registers go down first, B's along k; turned, the other way around in memory.
            let place = if (role == Role::A) != turned {
                format!("(lane & 15) * {steps} + (lane >> 4) * {units}")
            } else {
                format!("((lane >> 4) * 8 + (lane & 7)) * {steps} + (lane >> 3 & 1) * {units}")
            };
            let function = if turned { "matrices_turned" } else { "matrices" };
            line!(self, "{function}(t{}, {name} + {index} + {place});", tile.0);
            return;
        }
        line!(self, "{{");
        self.indent += 1;
        self.own(&fragment, index, stride, order);
        let most = (16 / scalar.size()).min(aligned.max(1));
        let most = 1 << most.ilog2();
        for Run { first, count } in Self::runs(&fragment, order, most) {
            let at = Self::offset(&fragment, first, order, &steps);
            let bytes = count * scalar.size();
            if Self::holding(role, &shape) == Holding::Registers && bytes >= 4 {
                let each = 4 / scalar.size();
                for register in 0..bytes / 4 {
                    line!(
                        self,
                        "t{}[{}] = *(const unsigned *)({name} + {at} + {});",
                        tile.0,
                        first / each + register,
                        register * each
                    );
                }
            } else if count == 1 {
                self.set_element(tile, first, &format!("{name}[{at}]"));
            } else {
                let type_ = type_name(scalar.into());
                line!(
                    self,
                    "const vec<{type_}, {count}> u{first} = load_vec<{type_}, {count}>({name} + {at});"
                );
                for slot in 0..count {
                    self.set_element(tile, first + slot, &format!("u{first}.e[{slot}]"));
                }
            }
        }
        self.indent -= 1;
        line!(self, "}}");
    }

    fn store(
        &mut self,
        tile: Tile,
        memory: Memory,
        [index, stride]: [Value; 2],
        order: Order,
        aligned: usize,
    ) {
        let Some((role, shape, fragment)) = self.tile(tile) else { return };
        let (shape, fragment) = (shape.clone(), fragment.clone());
        let scalar = shape.scalar(role);
        let (name, steps) = (self.memory(memory), self.v(stride));
        line!(self, "{{");
        self.indent += 1;
        self.own(&fragment, index, stride, order);
        let most = (16 / scalar.size()).min(aligned.max(1));
        for Run { first, count } in Self::runs(&fragment, order, 1 << most.ilog2()) {
            let at = Self::offset(&fragment, first, order, &steps);
            let elements: Vec<String> =
                (first..first + count).map(|slot| Self::element(role, &shape, tile, slot)).collect();
            if count == 1 {
                line!(self, "{name}[{at}] = {};", elements.join(""));
            } else {
                let type_ = type_name(scalar.into());
                line!(
                    self,
                    "store_vec({name} + {at}, vec<{type_}, {count}>{{{{{}}}}});",
                    elements.join(", ")
                );
            }
        }
        self.indent -= 1;
        line!(self, "}}");
    }

    fn multiply(&mut self, sum: Tile, a: Tile, b: Tile) {
        let Some((_, shape, fragment)) = self.tile(sum) else { return };
        let (shape, slots) = (shape.clone(), fragment.slots.len());
        let operand = shape.operand;
        let (sum, a, b) = (format!("t{}", sum.0), format!("t{}", a.0), format!("t{}", b.0));
        let each = shape.fragment(Role::A).map_or(1, |fragment| fragment.slots.len());
        match shape.instruction {
            MatrixInstruction::Plain => {
                let rows = each / shape.k as usize;
                let columns = slots / rows.max(1);
                let (tag, depth) = (tag(operand), shape.k);
                line!(self, "multiply_plain<{tag}, {rows}, {columns}, {depth}>({sum}, {a}, {b});");
            }
            MatrixInstruction::MmaSync => {
                let name = operand.name();
                line!(self, "mma_{name}({sum}, {a}, {b});");
                line!(self, "mma_{name}({sum} + 4, {a}, {b} + 2);");
            }
            MatrixInstruction::Mfma(builtin) => {
                let type_ = match (operand, each) {
                    (Scalar::F32, _) => "float".to_owned(),
                    (Scalar::F16, _) => format!("halves_n<{each}>"),
                    (Scalar::Bf16, 8) => "bfloats_n<8>".to_owned(),
                    (Scalar::Bf16, _) => format!("shorts_n<{each}>"),
                    (_, 4) => "int".to_owned(),
                    (_, 8) => "long".to_owned(),
                    _ => "vector_n<int, 4>".to_owned(),
                };
                let (a, b) =
                    if operand == Scalar::F32 { (format!("{a}[0]"), format!("{b}[0]")) } else { (a, b) };
                line!(
                    self,
                    "{sum} = __builtin_amdgcn_mfma_{builtin}(as<{type_}>({a}), as<{type_}>({b}), {sum}, 0, 0, 0);"
                );
            }
            MatrixInstruction::WmmaGfx11 | MatrixInstruction::WmmaGfx12 => {
                let end = if shape.instruction == MatrixInstruction::WmmaGfx12 { "_gfx12" } else { "" };
                let words = each * operand.size() / 4;
                let text = match operand {
                    Scalar::F16 => format!(
                        "f32_16x16x16_f16_w32{end}(as<halves_n<{each}>>({a}), as<halves_n<{each}>>({b}), {sum})"
                    ),
                    Scalar::Bf16 => format!(
                        "f32_16x16x16_bf16_w32{end}(as<shorts_n<{each}>>({a}), as<shorts_n<{each}>>({b}), {sum})"
                    ),
                    Scalar::Fp8E4m3 | Scalar::Fp8E5m2 => {
                        let kind = if operand == Scalar::Fp8E4m3 { "fp8" } else { "bf8" };
                        format!(
                            "f32_16x16x16_{kind}_{kind}_w32{end}(as<vector_n<int, {words}>>({a}), as<vector_n<int, {words}>>({b}), {sum})"
                        )
                    }
                    _ => {
                        let signed = operand == Scalar::I8;
                        format!(
                            "i32_16x16x16_iu8_w32{end}({signed}, as<vector_n<int, {words}>>({a}), {signed}, as<vector_n<int, {words}>>({b}), {sum}, false)"
                        )
                    }
                };
                line!(self, "{sum} = __builtin_amdgcn_wmma_{text};");
            }
            // Only SPIR-V has them.
            MatrixInstruction::Cooperative => {}
        }
    }

    pub(super) fn tile_instruction(&mut self, instruction: &Instruction) {
        match *instruction {
            Instruction::TileFill { tile, x } => {
                let slots = self.tile(tile).map_or(0, |(.., fragment)| fragment.slots.len());
                let x = self.v(x);
                for slot in 0..slots {
                    self.set_element(tile, slot, &x);
                }
            }
            Instruction::TileLoad { tile, memory, index, stride, order, aligned } => {
                self.load(tile, memory, [index, stride], order, usize::from(aligned));
            }
            Instruction::TileStore { tile, memory, index, stride, order, aligned } => {
                self.store(tile, memory, [index, stride], order, usize::from(aligned));
            }
            Instruction::TileMultiply { sum, a, b } => self.multiply(sum, a, b),
            Instruction::TileGet { out, tile, slot } => {
                let Some((role, shape, _)) = self.tile(tile) else { return };
                let text = Self::element(role, shape, tile, usize::from(slot));
                self.define(out, format_args!("{text}"));
            }
            Instruction::TileSet { tile, slot, x } => {
                let x = self.v(x);
                self.set_element(tile, usize::from(slot), &x);
            }
            Instruction::TileMap { tile, element, ref body, result } => {
                let Some((role, shape, fragment)) = self.tile(tile) else { return };
                let shape = shape.clone();
                for slot in 0..fragment.slots.len() {
                    line!(self, "{{");
                    self.indent += 1;
                    let own = Self::element(role, &shape, tile, slot);
                    self.define(element, format_args!("{own}"));
                    self.block(body);
                    let result = self.v(result);
                    self.set_element(tile, slot, &result);
                    self.indent -= 1;
                    line!(self, "}}");
                }
            }
            _ => {}
        }
    }
}
