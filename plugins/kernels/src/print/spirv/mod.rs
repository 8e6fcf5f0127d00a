//! SPIR-V for Vulkan 1.2, with 64-bit addresses of buffers.
//!
//! Parameters are 8 bytes each and stand in push constants; if these are too few, the only push constant is the address of the
//! parameters. Numbers in registers are scalars: drivers put them into vectors themselves. Elements of less than 32 bits are in registers
//! as the bits of a whole number of 32 bits.

mod arithmetic;
mod convert;
mod cooperative;
mod flow;
mod functions;
mod half;
mod ids;
mod memory;
mod packed;
mod shared;
mod tiles;

use std::collections::HashMap;

use rspirv::binary::Assemble;
use rspirv::dr::{Block, Function, Instruction, Module, ModuleHeader, Operand};
use rspirv::spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel, FunctionControl,
    MemoryModel, Op, StorageClass, Word,
};

use self::ids::{Kind, PointedTo, U64};
use crate::form::{Kernel, Parameter};
use crate::scalar::{Scalar, Type};
use crate::target::MatrixInstruction;

/// What a device lets modules do beside the minimum: 64-bit whole numbers and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of Vulkan's features and limits")]
pub struct Features {
    pub shader_float64: bool,
    pub shader_float16: bool,
    pub shader_int16: bool,
    pub shader_int8: bool,
    pub storage_16_bit: bool,
    pub storage_8_bit: bool,
    pub signed_zero_inf_nan_preserve_float32: bool,
    /// Conversions to 16 bits round to the nearest, ties to even, if they are asked to; subnormal results stay if they are asked to.
    pub shader_rounding_mode_rte_float16: bool,
    pub shader_denorm_preserve_float16: bool,
    /// With `vulkanMemoryModel`.
    pub cooperative_matrix: bool,
    pub shader_bfloat16_cooperative_matrix: bool,
    /// Also that its conversions of floats round to the nearest, ties to even, which Vulkan does not promise.
    pub shader_bfloat16_type: bool,
    pub max_push_constants_size: u32,
}

/// A kernel as SPIR-V.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spirv {
    /// The module; its entry point is `main`.
    pub words: Vec<u32>,
    /// Bytes of push constants.
    pub push_bytes: u32,
    /// Whether the only push constant is the address of the parameters.
    pub is_indirect: bool,
    /// Whether real numbers among the parameters are floats in the lower 4 bytes rather than doubles.
    pub has_float_numbers: bool,
    /// Of how many threads each subgroup has to be, for kernels with cooperative matrices.
    pub subgroup: Option<u32>,
}

/// The version of SPIR-V: 1.5, that of Vulkan 1.2.
const VERSION: u32 = 0x0001_0500;

/// Prints a kernel for a device.
///
/// # Errors
/// What the kernel needs and the device lacks.
pub fn print(kernel: &Kernel, features: &Features) -> Result<Spirv, String> {
    let mut printer = Printer::new(kernel, features);
    printer.declare_matrices()?;
    let push = printer.parameters();
    let body = kernel.body.as_slice();
    printer.locals()?;
    printer.block(body)?;
    let words = printer.assemble();
    Ok(Spirv {
        words,
        push_bytes: push.bytes,
        is_indirect: push.is_indirect,
        has_float_numbers: !features.shader_float64,
        subgroup: is_cooperative(kernel).then_some(kernel.subgroup),
    })
}

/// Whether a kernel has cooperative matrices.
fn is_cooperative(kernel: &Kernel) -> bool {
    kernel.shapes.iter().any(|shape| shape.instruction == MatrixInstruction::Cooperative)
}

/// How parameters are passed.
struct Push {
    bytes: u32,
    is_indirect: bool,
}

/// A module that is being written.
pub(super) struct Printer<'a> {
    kernel: &'a Kernel,
    features: &'a Features,
    /// Whether it has cooperative matrices, and so Vulkan's memory model.
    is_cooperative: bool,
    last: Word,
    glsl: Word,
    entry: Word,
    capabilities: Vec<Capability>,
    extensions: Vec<&'static str>,
    decorations: Vec<Instruction>,
    globals: Vec<Instruction>,
    types: HashMap<Kind, Word>,
    constants: HashMap<(Kind, u64), Word>,
    /// Variables outside the function, which the entry point lists.
    interface: Vec<Word>,
    builtins: HashMap<BuiltIn, Word>,
    variables: Vec<Instruction>,
    body: Vec<Instruction>,
    parameters: Vec<Word>,
    shared: HashMap<u32, Word>,
    /// The bytes of the units in which shared arrays are accessed.
    units: Vec<usize>,
    /// The elements of each value.
    values: Vec<Vec<Word>>,
    /// The words of 32 bits of vectors of smaller elements that were loaded.
    packed: HashMap<u32, Vec<Word>>,
    /// The word that a half was taken from, and which half of it.
    halves: HashMap<u32, (Word, u32)>,
    /// The float that a half is rounded from where it is used.
    rounded: HashMap<u32, Word>,
    /// The floats that the halves of a word were rounded from.
    origins: HashMap<Word, [Word; 2]>,
    locals: Vec<Vec<(Word, Kind)>>,
    tiles: Vec<Vec<(Word, Kind)>>,
}

impl<'a> Printer<'a> {
    fn new(kernel: &'a Kernel, features: &'a Features) -> Self {
        let mut printer = Self {
            kernel,
            features,
            is_cooperative: is_cooperative(kernel),
            last: 0,
            glsl: 0,
            entry: 0,
            capabilities: vec![
                Capability::Shader,
                Capability::Int64,
                Capability::PhysicalStorageBufferAddresses,
            ],
            extensions: Vec::new(),
            decorations: Vec::new(),
            globals: Vec::new(),
            types: HashMap::new(),
            constants: HashMap::new(),
            interface: Vec::new(),
            builtins: HashMap::new(),
            variables: Vec::new(),
            body: Vec::new(),
            parameters: Vec::new(),
            shared: HashMap::new(),
            units: shared::units(kernel),
            packed: HashMap::new(),
            halves: HashMap::new(),
            rounded: HashMap::new(),
            origins: HashMap::new(),
            values: vec![Vec::new(); kernel.values.len()],
            locals: Vec::new(),
            tiles: Vec::new(),
        };
        printer.glsl = printer.id();
        printer.entry = printer.id();
        printer
    }

    /// The kind of a type's elements in registers.
    fn kind(&self, scalar: Scalar) -> Kind {
        match scalar {
            Scalar::Bool => Kind::Bool,
            Scalar::F32 => Kind::Float(32),
            Scalar::F64 if self.features.shader_float64 => Kind::Float(64),
            Scalar::F64 => Kind::Float(32),
            Scalar::I64 => U64,
            _ => Kind::Int(32),
        }
    }

    fn decorate(&mut self, id: Word, decoration: Decoration, more: Vec<Operand>) {
        let operands = [vec![Operand::IdRef(id), Operand::Decoration(decoration)], more].concat();
        self.decorations.push(Instruction::new(Op::Decorate, None, None, operands));
    }

    /// A struct of this many addresses, as a block of memory.
    fn block_of(&mut self, count: usize) -> Word {
        let word = self.type_id(U64);
        let id = self.declare(Op::TypeStruct, None, vec![Operand::IdRef(word); count]);
        self.decorate(id, Decoration::Block, Vec::new());
        for place in 0..count as u32 {
            let operands = vec![
                Operand::IdRef(id),
                Operand::LiteralBit32(place),
                Operand::Decoration(Decoration::Offset),
                Operand::LiteralBit32(8 * place),
            ];
            self.decorations.push(Instruction::new(Op::MemberDecorate, None, None, operands));
        }
        id
    }

    /// Loads all parameters.
    fn parameters(&mut self) -> Push {
        let count = self.kernel.parameters.len();
        if count == 0 {
            return Push { bytes: 0, is_indirect: false };
        }
        let is_indirect = count * 8 > self.features.max_push_constants_size as usize;
        let pushed = if is_indirect { 1 } else { count };
        let block = self.block_of(pushed);
        let class = StorageClass::PushConstant;
        let pointer = self.type_id(Kind::Pointer(class, PointedTo::Other(block)));
        let variable = self.declare(Op::Variable, Some(pointer), vec![Operand::StorageClass(class)]);
        self.interface.push(variable);
        for place in 0..pushed {
            let place = self.int(place as i64);
            let at = self.op(Op::AccessChain, Kind::Pointer(class, PointedTo::Int(64)), &[variable, place]);
            let word = self.op(Op::Load, U64, &[at]);
            self.parameters.push(word);
        }
        if is_indirect {
            let first = std::mem::take(&mut self.parameters).first().copied().unwrap_or_default();
            for place in 0..count {
                let distance = self.constant(U64, 8 * place as u64);
                let address = self.op(Op::IAdd, U64, &[first, distance]);
                let word = self.load_word(address, PointedTo::Int(64), 8);
                self.parameters.push(word);
            }
        }
        Push { bytes: 8 * pushed as u32, is_indirect }
    }

    /// Makes the variables of locals and tiles.
    fn locals(&mut self) -> Result<(), String> {
        for type_ in self.kernel.locals.clone() {
            let (kind, count) = match packed::words(type_) {
                Some(words) => (Kind::Int(32), words),
                None => (self.kind(type_.scalar), usize::from(type_.lanes)),
            };
            let variables = (0..count).map(|_| self.variable(kind)).collect();
            self.locals.push(variables);
        }
        self.make_tiles()
    }

    /// A number of the thread that the device provides.
    fn builtin(&mut self, builtin: BuiltIn, to: PointedTo) -> Word {
        let class = StorageClass::Input;
        let variable = match self.builtins.get(&builtin) {
            Some(variable) => *variable,
            None => {
                let pointer = self.type_id(Kind::Pointer(class, to));
                let variable = self.declare(Op::Variable, Some(pointer), vec![Operand::StorageClass(class)]);
                self.decorate(variable, Decoration::BuiltIn, vec![Operand::BuiltIn(builtin)]);
                self.interface.push(variable);
                self.builtins.insert(builtin, variable);
                variable
            }
        };
        let kind: Option<Kind> = to.into();
        self.op(Op::Load, kind.unwrap_or(Kind::Int(32)), &[variable])
    }

    fn assign(&mut self, out: crate::form::Value, elements: Vec<Word>) {
        if let Some(place) = self.values.get_mut(out.0 as usize) {
            *place = elements;
        }
    }

    fn type_of(&self, value: crate::form::Value) -> Type {
        self.kernel.type_of(value)
    }

    /// The type of a parameter's elements.
    fn parameter_scalar(&self, place: u32) -> (Scalar, usize) {
        match self.kernel.parameters.get(place as usize) {
            Some(Parameter::Memory { scalar, alignment, .. }) => (*scalar, *alignment),
            Some(Parameter::Number(scalar)) => (*scalar, 8),
            None => (Scalar::I32, 4),
        }
    }

    /// The words of the module.
    fn assemble(mut self) -> Vec<u32> {
        let void = self.type_id(Kind::Void);
        let signature = self.declare(Op::TypeFunction, None, vec![Operand::IdRef(void)]);
        let mut module = Module::new();
        self.declare_mode(&mut module);
        let label = self.id();
        let mut instructions = self.variables;
        instructions.extend(self.body);
        instructions.push(Instruction::new(Op::Return, None, None, Vec::new()));
        let operands = vec![Operand::FunctionControl(FunctionControl::NONE), Operand::IdRef(signature)];
        module.functions.push(Function {
            def: Some(Instruction::new(Op::Function, Some(void), Some(self.entry), operands)),
            end: Some(Instruction::new(Op::FunctionEnd, None, None, Vec::new())),
            parameters: Vec::new(),
            blocks: vec![Block {
                label: Some(Instruction::new(Op::Label, None, Some(label), Vec::new())),
                instructions,
            }],
        });
        let capability =
            |capability| Instruction::new(Op::Capability, None, None, vec![Operand::Capability(capability)]);
        module.capabilities = self.capabilities.into_iter().map(capability).collect();
        let extension = |name: &str| {
            Instruction::new(Op::Extension, None, None, vec![Operand::LiteralString(name.to_owned())])
        };
        module.extensions = self.extensions.into_iter().map(extension).collect();
        module.ext_inst_imports = vec![Instruction::new(
            Op::ExtInstImport,
            None,
            Some(self.glsl),
            vec![Operand::LiteralString("GLSL.std.450".to_owned())],
        )];
        module.annotations = self.decorations;
        module.types_global_values = self.globals;
        let mut header = ModuleHeader::new(self.last + 1);
        header.version = VERSION;
        module.header = Some(header);
        module.assemble()
    }

    /// The entry point and how it is executed.
    fn declare_mode(&mut self, module: &mut Module) {
        let mut operands = vec![
            Operand::ExecutionModel(ExecutionModel::GLCompute),
            Operand::IdRef(self.entry),
            Operand::LiteralString("main".to_owned()),
        ];
        operands.extend(self.interface.iter().map(|variable| Operand::IdRef(*variable)));
        module.entry_points.push(Instruction::new(Op::EntryPoint, None, None, operands));
        let mut modes = vec![(ExecutionMode::LocalSize, vec![self.kernel.threads, 1, 1])];
        if self.features.signed_zero_inf_nan_preserve_float32 {
            modes.push((ExecutionMode::SignedZeroInfNanPreserve, vec![32]));
            self.need(Capability::SignedZeroInfNanPreserve);
        }
        if self.capabilities.contains(&Capability::RoundingModeRTE) {
            modes.push((ExecutionMode::RoundingModeRTE, vec![16]));
            if self.features.shader_denorm_preserve_float16 {
                modes.push((ExecutionMode::DenormPreserve, vec![16]));
                self.need(Capability::DenormPreserve);
            }
        }
        for (mode, more) in modes {
            let literals = more.into_iter().map(Operand::LiteralBit32);
            let operands =
                [Operand::IdRef(self.entry), Operand::ExecutionMode(mode)].into_iter().chain(literals);
            module.execution_modes.push(Instruction::new(Op::ExecutionMode, None, None, operands.collect()));
        }
        let model = [
            Operand::AddressingModel(AddressingModel::PhysicalStorageBuffer64),
            Operand::MemoryModel(if self.is_cooperative {
                MemoryModel::Vulkan
            } else {
                MemoryModel::GLSL450
            }),
        ];
        module.memory_model = Some(Instruction::new(Op::MemoryModel, None, None, model.to_vec()));
    }
}

#[cfg(test)]
mod tests;
