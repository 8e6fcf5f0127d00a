//! C++ for hipRTC and NVRTC.

mod spelling;
mod tiles;

use std::fmt::Write;

use crate::form::{Block, Constant, Index, Instruction, Kernel, Memory, Parameter, Value};
use crate::scalar::{Scalar, Type};
use crate::target::Language;
use spelling::{binary, comparison, type_name, unary};

/// HIP's definitions, before [`PRELUDE`].
pub const HIP: &str = include_str!("hip.h");
/// CUDA's definitions, before [`PRELUDE`].
pub const CUDA: &str = include_str!("cuda.h");
/// Code of all kernels, before them.
pub const PRELUDE: &str = include_str!("prelude.h");

/// The most shared memory that CUDA's kernels declare; more is passed at launch.
const STATIC_SHARED: usize = 48 << 10;

/// What precedes the kernels in a language.
pub fn preamble(language: Language) -> String {
    let own = if language == Language::Cuda { CUDA } else { HIP };
    format!("{own}{PRELUDE}")
}

/// Bytes of shared memory to pass at launch.
pub fn shared_at_launch(kernel: &Kernel, language: Language) -> usize {
    let bytes = kernel.shared_bytes();
    if language == Language::Cuda && bytes > STATIC_SHARED { bytes } else { 0 }
}

/// The source of one kernel, without the [`preamble`].
pub fn kernel(kernel: &Kernel, language: Language) -> String {
    let mut printer = Printer { kernel, names: Vec::new(), language, text: String::new(), indent: 1 };
    printer.name(&kernel.body);
    printer.head();
    printer.block(&kernel.body);
    let parameters = kernel.parameters.iter().enumerate().map(|(place, parameter)| match parameter {
        Parameter::Memory { scalar, written, .. } => {
            let constant = if *written { "" } else { "const " };
            format!("{constant}{} *__restrict__ p{place}", type_name(Type::from(*scalar)))
        }
        Parameter::Number(scalar) => format!("{} p{place}", type_name(Type::from(*scalar))),
    });
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    let bounds = if language == Language::Cuda && kernel.residents > 1 {
        format!("{}, {}", kernel.threads, kernel.residents)
    } else {
        kernel.threads.to_string()
    };
    let text = printer.text;
    format!(
        "extern \"C\" __global__ void __launch_bounds__({bounds}) {}({parameters})\n{{\n{text}}}\n",
        kernel.name
    )
}

struct Printer<'a> {
    kernel: &'a Kernel,
    /// The spelling of each value.
    names: Vec<String>,
    language: Language,
    text: String,
    indent: usize,
}

/// `args` of a line.
macro_rules! line {
    ($printer:expr, $($args:tt)*) => { $printer.line(format_args!($($args)*)) };
}
use line;

impl Printer<'_> {
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        for _ in 0..self.indent {
            self.text.push_str("    ");
        }
        // Writing to a string does not fail.
        let _infallible = self.text.write_fmt(text);
        self.text.push('\n');
    }

    fn head(&mut self) {
        let at_launch = shared_at_launch(self.kernel, self.language) > 0;
        if at_launch {
            line!(self, "extern __shared__ __align__(16) unsigned char all_shared[];");
        }
        let mut offset = 0;
        for (place, array) in self.kernel.shared.iter().enumerate() {
            let name = type_name(array.scalar.into());
            if at_launch {
                line!(self, "{name} *const s{place} = ({name} *)(all_shared + {offset});");
                offset += (array.length * array.scalar.size()).next_multiple_of(16);
            } else {
                let length = array.length.max(1);
                line!(self, "__shared__ __attribute__((aligned(16))) {name} s{place}[{length}];");
            }
        }
        let subgroup = self.kernel.subgroup;
        line!(self, "const int thread = (int)threadIdx.x;");
        line!(self, "const int lane = thread & {};", subgroup.max(1) - 1);
        if self.language == Language::Hip {
            line!(self, "const int wave = __builtin_amdgcn_readfirstlane(thread / {subgroup}u);");
        } else {
            line!(self, "const int wave = (int)((unsigned)thread / {subgroup}u);");
        }
        line!(self, "(void)lane, (void)wave;");
        for (place, type_) in self.kernel.locals.iter().enumerate() {
            line!(self, "{} l{place};", type_name(*type_));
        }
        for place in 0..self.kernel.tiles.len() {
            self.declare_tile(place);
        }
    }

    fn block(&mut self, block: &Block) {
        for instruction in block {
            self.instruction(instruction);
        }
    }

    fn nested(&mut self, block: &Block) {
        self.indent += 1;
        self.block(block);
        self.indent -= 1;
    }

    /// Spells constants where they are used.
    fn name(&mut self, block: &Block) {
        if self.names.is_empty() {
            self.names = (0..self.kernel.values.len()).map(|place| format!("v{place}")).collect();
        }
        for instruction in block {
            match instruction {
                Instruction::Const { out, constant } => {
                    let text = self.constant(*out, *constant);
                    if let Some(name) = self.names.get_mut(out.0 as usize) {
                        *name = if text.starts_with('-') { format!("({text})") } else { text };
                    }
                }
                Instruction::If { then, otherwise, .. } => {
                    self.name(then);
                    self.name(otherwise);
                }
                Instruction::For { body, .. } | Instruction::TileMap { body, .. } => self.name(body),
                _ => {}
            }
        }
    }

    /// A value's spelling.
    fn v(&self, value: Value) -> String {
        self.names.get(value.0 as usize).cloned().unwrap_or_default()
    }

    /// A statement that defines a value.
    fn define(&mut self, out: Value, expression: std::fmt::Arguments<'_>) {
        let name = type_name(self.kernel.type_of(out));
        line!(self, "const {name} v{} = {expression};", out.0);
    }

    fn memory(&self, memory: Memory) -> String {
        match memory {
            Memory::Global(pointer) => format!("p{}", pointer.0),
            Memory::Shared(shared) => format!("s{}", shared.0),
        }
    }

    fn constant(&self, out: Value, constant: Constant) -> String {
        let scalar = self.kernel.type_of(out).scalar;
        match constant {
            Constant::Int(number) => match scalar {
                Scalar::I64 => format!("{number}LL"),
                Scalar::Bool => (number != 0).to_string(),
                Scalar::I32 if number == i64::from(i32::MIN) => "(-2147483647 - 1)".to_owned(),
                _ => number.to_string(),
            },
            Constant::Float(number) => match scalar {
                Scalar::F64 => format!("as<double>({}ull)", number.to_bits()),
                Scalar::F32 => spelling::float(number as f32),
                other => format!("{}::of({})", other.name(), spelling::float(number as f32)),
            },
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each instruction")]
    fn instruction(&mut self, instruction: &Instruction) {
        match instruction {
            // Defined where they are used: they are visible everywhere.
            Instruction::Const { .. } => {}
            Instruction::Unary { out, op, x } => {
                let text = unary(*op, self.kernel.type_of(*x), &self.v(*x));
                self.define(*out, format_args!("{text}"));
            }
            Instruction::Binary { out, op, x, y } => {
                let text = binary(*op, self.kernel.type_of(*x), &self.v(*x), &self.v(*y));
                self.define(*out, format_args!("{text}"));
            }
            Instruction::Fma { out, x, y, z } => {
                let (x, y, z) = (self.v(*x), self.v(*y), self.v(*z));
                self.define(*out, format_args!("multiply_add({x}, {y}, {z})"));
            }
            Instruction::Compare { out, op, x, y } => {
                let (x, y) = (self.v(*x), self.v(*y));
                self.define(*out, format_args!("{x} {} {y}", comparison(*op)));
            }
            Instruction::Select { out, condition, x, y } => {
                let (c, x, y) = (self.v(*condition), self.v(*x), self.v(*y));
                self.define(*out, format_args!("{c} ? {x} : {y}"));
            }
            Instruction::Convert { out, x } => {
                let text = self.converted(*out, *x);
                self.define(*out, format_args!("{text}"));
            }
            Instruction::Bits { out, x } => {
                let name = type_name(self.kernel.type_of(*out));
                let x = self.v(*x);
                self.define(*out, format_args!("as<{name}>({x})"));
            }
            Instruction::Build { out, parts } => {
                let parts: Vec<String> = parts.iter().map(|part| self.v(*part)).collect();
                self.define(*out, format_args!("{{{{{}}}}}", parts.join(", ")));
            }
            Instruction::Extract { out, x, lane } => {
                let x = self.v(*x);
                self.define(*out, format_args!("{x}.e[{lane}]"));
            }
            Instruction::Index { out, index } => {
                let text = match index {
                    Index::Thread => "thread",
                    Index::Group(0) => "(int)blockIdx.x",
                    Index::Group(1) => "(int)blockIdx.y",
                    Index::Group(_) => "(int)blockIdx.z",
                    Index::Lane => "lane",
                    Index::Subgroup => "wave",
                };
                self.define(*out, format_args!("{text}"));
            }
            Instruction::Number { out, parameter } => self.define(*out, format_args!("p{}", parameter.0)),
            Instruction::Get { out, local } => self.define(*out, format_args!("l{}", local.0)),
            Instruction::Set { local, x } => {
                let x = self.v(*x);
                line!(self, "l{} = {x};", local.0);
            }
            Instruction::Load { out, memory, index } => {
                let (memory, index) = (self.memory(*memory), self.v(*index));
                match self.kernel.type_of(*out).lanes {
                    1 => self.define(*out, format_args!("{memory}[{index}]")),
                    lanes => {
                        let name = type_name(self.kernel.type_of(*out).scalar.into());
                        self.define(*out, format_args!("load_vec<{name}, {lanes}>({memory} + {index})"));
                    }
                }
            }
            Instruction::Store { memory, index, x } => {
                let (memory, index) = (self.memory(*memory), self.v(*index));
                let (lanes, x) = (self.kernel.type_of(*x).lanes, self.v(*x));
                if lanes == 1 {
                    line!(self, "{memory}[{index}] = {x};");
                } else {
                    line!(self, "store_vec({memory} + {index}, {x});");
                }
            }
            Instruction::AsyncCopy { to, to_index, from, from_index, bytes, condition, near } => {
                let (to_index, from_index) = (self.v(*to_index), self.v(*from_index));
                let (to, from) = (format!("s{} + {to_index}", to.0), format!("p{} + {from_index}", from.0));
                let condition = condition.map_or("true".to_owned(), |condition| self.v(condition));
                line!(self, "copy_beside<{bytes}, {near}>({to}, {from}, {condition});");
            }
            Instruction::AsyncCommit => line!(self, "copies_commit();"),
            Instruction::AsyncWait { pending } => line!(self, "copies_wait<{pending}>();"),
            Instruction::Barrier => line!(self, "__syncthreads();"),
            Instruction::ShuffleXor { out, x, mask } => {
                let (size, x) = (self.size(*x), self.v(*x));
                self.define(*out, format_args!("exchange<{size}>::swapped<{mask}>({x})"));
            }
            Instruction::Shuffle { out, x, lane } => {
                let (size, x, lane) = (self.size(*x), self.v(*x), self.v(*lane));
                self.define(*out, format_args!("exchange<{size}>::taken({x}, {lane})"));
            }
            Instruction::If { condition, then, otherwise } => {
                let condition = self.v(*condition);
                line!(self, "if ({condition}) {{");
                self.nested(then);
                if !otherwise.is_empty() {
                    line!(self, "}} else {{");
                    self.nested(otherwise);
                }
                line!(self, "}}");
            }
            Instruction::For { var, start, end, step, body } => {
                let (start, end, step) = (self.v(*start), self.v(*end), self.v(*step));
                line!(self, "#pragma unroll 1");
                line!(self, "for (int v{0} = {start}; v{0} < {end}; v{0} += {step}) {{", var.0);
                self.nested(body);
                line!(self, "}}");
            }
            Instruction::TileFill { .. }
            | Instruction::TileLoad { .. }
            | Instruction::TileStore { .. }
            | Instruction::TileMultiply { .. }
            | Instruction::TileGet { .. }
            | Instruction::TileSet { .. }
            | Instruction::TileMap { .. } => self.tile_instruction(instruction),
        }
    }

    fn size(&self, value: Value) -> usize {
        let type_ = self.kernel.type_of(value);
        type_.scalar.size() * usize::from(type_.lanes)
    }

    fn converted(&self, out: Value, x: Value) -> String {
        let (to, from) = (self.kernel.type_of(out), self.kernel.type_of(x));
        let x = self.v(x);
        match (to.scalar, from.scalar, to.lanes) {
            (_, _, 1) => format!("{}::of({}::up({x}))", tag(to.scalar), tag(from.scalar)),
            (Scalar::F16 | Scalar::Bf16, Scalar::F32, lanes) => {
                format!("{}_pairs<{lanes}>({x})", tag(to.scalar))
            }
            (_, _, lanes) => format!("converted<{}, {}, {lanes}>({x})", tag(to.scalar), tag(from.scalar)),
        }
    }
}

/// The type with a scalar's conversions.
fn tag(scalar: Scalar) -> &'static str {
    if scalar == Scalar::Bool { "bool_" } else { scalar.name() }
}

#[cfg(test)]
pub(crate) mod tests;
