//! What the compiled kernels of large problems take on each of AMD's devices: registers, shared memory, and the waves that fit beside
//! each other. None but those known to may keep registers in memory, or leave a unit of its device to one wave.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use hipdnn_kernels::print::c;
use hipdnn_kernels::traffic::Traffic;
use hipdnn_kernels::{Target, target::Language};
use hipdnn_plugin_lowering::{Lowered, Options, lower};
use hipdnn_plugin_sdk::graph::operation::{
    ConvolutionBackwardData, ConvolutionBackwardFilter, ConvolutionForward, Matmul, Pointwise, Sdpa,
    SdpaBackward,
};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, Tensor};
use hipdnn_rtc_plugin::compiler::Compiler;
use hipdnn_rtc_plugin::handle::Platform;

use crate::Failure;
use crate::code_object::{Kernel, kernels};

/// The devices.
pub const ARCHITECTURES: [&str; 11] = [
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1151", "gfx1200",
    "gfx1201",
];

/// A graph with its name.
struct Problem {
    name: String,
    graph: Graph,
}

/// The vector registers of a device, of which each thread of a wave takes some.
struct Registers {
    /// Those of a lane, which waves share.
    all: u64,
    /// What waves take multiples of.
    step: u64,
    /// The most waves.
    waves: u64,
}

/// The units of a compute unit, or of a workgroup processor, that execute waves.
const SIMDS: u64 = 4;

impl Registers {
    /// Of the instruction set documents and LLVM's description of the targets.
    fn of(architecture: &str) -> Self {
        let (all, step, waves) = match architecture {
            "gfx906" | "gfx908" => (256, 4, 10),
            "gfx90a" | "gfx942" | "gfx950" => (512, 8, 8),
            "gfx1030" => (1024, 16, 16),
            _ => (1536, 24, 16),
        };
        Self { all, step, waves }
    }

    /// Waves of a unit beside each other, which registers and shared memory allow.
    fn waves(&self, kernel: &Kernel, shared_of_unit: usize) -> f64 {
        let taken = kernel.registers.max(1).next_multiple_of(self.step);
        let of_group = kernel.threads.div_ceil(kernel.wave.max(1)).max(1);
        let by_registers = (self.all / taken).min(self.waves) * SIMDS / of_group;
        let by_shared = shared_of_unit as u64 / kernel.shared.max(1);
        (by_registers.min(by_shared) * of_group) as f64 / SIMDS as f64
    }
}

fn tensors(data_type: DataType, all: &[(&[i64], bool)]) -> Vec<Tensor> {
    let own = all.iter().zip(1..);
    own.map(|((dims, is_virtual), uid)| Tensor {
        is_virtual: *is_virtual,
        ..Tensor::packed(uid, data_type, dims)
    })
    .collect()
}

fn problem(name: &str, data_type: DataType, all: &[(&[i64], bool)], operations: Vec<Operation>) -> Problem {
    let compute_type = if data_type == DataType::Int8 { DataType::Int32 } else { DataType::Float };
    let node = |operation| Node { name: "n".to_owned(), compute_type, operation };
    let mut graph = Graph {
        tensors: tensors(data_type, all),
        nodes: operations.into_iter().map(node).collect(),
        ..Graph::default()
    };
    let is_byte = matches!(data_type, DataType::Int8 | DataType::Fp8E4m3);
    if let Some(result) = graph.tensors.last_mut().filter(|_| is_byte) {
        result.data_type = compute_type;
    }
    Problem { name: format!("{name} {}", data_type.name()), graph }
}

fn product(rows: i64, data_type: DataType) -> Problem {
    let name = if rows < 4096 { format!("product of {rows} rows") } else { "product".to_owned() };
    let dims: [(&[i64], bool); 3] = [(&[rows, 4096], false), (&[4096, 4096], false), (&[rows, 4096], false)];
    problem(&name, data_type, &dims, vec![Matmul { a: 1, b: 2, c: 3 }.into()])
}

/// A convolution of ResNet-50 with channels last: forward with bias and RELU, and both gradients.
fn convolutions(data_type: DataType) -> Vec<Problem> {
    let (image, filter): (&[i64], &[i64]) = (&[32, 256, 14, 14], &[256, 256, 3, 3]);
    let new = ConvolutionForward::new(1, 2, 3, 2);
    let forward = ConvolutionForward { pre_padding: vec![1; 2], post_padding: vec![1; 2], ..new };
    let ConvolutionForward { pre_padding, post_padding, stride, dilation, conv_mode, .. } = forward.clone();
    let data = ConvolutionBackwardData {
        dy: 1,
        w: 2,
        dx: 3,
        pre_padding: pre_padding.clone(),
        post_padding: post_padding.clone(),
        stride: stride.clone(),
        dilation: dilation.clone(),
        conv_mode,
    };
    let of_filter = ConvolutionBackwardFilter {
        x: 1,
        dy: 2,
        dw: 3,
        pre_padding,
        post_padding,
        stride,
        dilation,
        conv_mode,
    };
    let bias = Pointwise::new(PointwiseMode::Add, 3, Some(4), 5);
    let relu = Pointwise::new(PointwiseMode::ReluFwd, 5, None, 6);
    let (channels, hidden): (&[i64], _) = (&[1, 256, 1, 1], (image, true));
    let dims = [(image, false), (filter, false), hidden, (channels, false), hidden, (image, false)];
    let plain = [dims[0], dims[1], (image, false)];
    let gradient = [dims[0], dims[0], (filter, false)];
    let mut all = vec![
        problem("convolution, bias, relu", data_type, &dims, vec![forward.into(), bias.into(), relu.into()]),
        problem("convolution backward data", data_type, &plain, vec![data.into()]),
        problem("convolution backward filter", data_type, &gradient, vec![of_filter.into()]),
    ];
    for tensor in all.iter_mut().flat_map(|problem| &mut problem.graph.tensors) {
        if let ([_, channels, height, width], [batch, channel, row, column]) =
            (tensor.dims.as_slice(), tensor.strides.as_mut_slice())
        {
            (*batch, *channel, *row, *column) = (channels * height * width, 1, channels * width, *channels);
        }
    }
    all
}

/// Causal attention and its gradients.
fn attention(depth: i64, data_type: DataType) -> [Problem; 2] {
    let (rows, sums): (&[i64], &[i64]) = (&[2, 16, 2048, depth], &[2, 16, 2048, 1]);
    let forward = Sdpa { causal_mask: true, ..Sdpa::new(1, 2, 3, 4) };
    let new = SdpaBackward::new([1, 2, 3, 4, 5, 6], [7, 8, 9]);
    let backward = SdpaBackward { causal_mask: true, ..new };
    let own = (rows, false);
    let dims = [own, own, own, own, own, (sums, false), own, own, own];
    let mut gradients =
        problem(&format!("attention backward, heads of {depth}"), data_type, &dims, vec![backward.into()]);
    if let Some(stats) = gradients.graph.tensors.get_mut(5) {
        stats.data_type = DataType::Float;
    }
    let name = format!("attention, heads of {depth}");
    [problem(&name, data_type, &[own; 4], vec![forward.into()]), gradients]
}

/// A query of many keys, which workgroups share.
fn decoding() -> Problem {
    let (query, keys): (&[i64], &[i64]) = (&[2, 16, 1, 128], &[2, 16, 8192, 128]);
    let dims = [(query, false), (keys, false), (keys, false), (query, false)];
    problem("attention of a query, heads of 128", DataType::Half, &dims, vec![Sdpa::new(1, 2, 3, 4).into()])
}

fn problems() -> Vec<Problem> {
    use DataType::{Bfloat16, Float, Fp8E4m3, Half, Int8};
    let mut all: Vec<Problem> =
        [Half, Bfloat16, Float, Int8, Fp8E4m3].map(|data_type| product(4096, data_type)).into();
    all.push(product(8, Half));
    all.extend([Half, Float].into_iter().flat_map(convolutions));
    all.extend([64, 128, 256].into_iter().flat_map(|depth| attention(depth, Half)));
    all.extend(attention(128, Float));
    all.push(decoding());
    all
}

/// Devices and beginnings of problems that are known to keep registers in memory, and those known to leave a unit to one wave.
const SPILLING: [(&str, &str); 2] =
    [("gfx1", "attention backward, heads of 256 half"), ("gfx1", "attention backward, heads of 128 float")];
/// Tiles of ordinary instructions of 64 threads take a little more than half of gfx906's registers or shared memory.
const ALONE: [(&str, &str); 3] =
    [("gfx906", ""), ("gfx908", "attention, heads of 256 half"), ("gfx908", "attention, heads of 128 float")];

fn is_known(list: &[(&str, &str)], architecture: &str, problem: &str) -> bool {
    list.iter().any(|(device, name)| architecture.starts_with(device) && problem.starts_with(name))
}

/// The file's columns.
const HEADER: &str = "device,problem,kernel,registers,accumulators,spilled,scalars spilled,bytes in memory,\
    shared bytes,threads,waves of a unit,multiplications of matrices per KiB\n";

/// Compiles the kernels for all architectures that hipRTC knows, or for some, and writes the file. Returns a summary.
///
/// # Errors
/// What does not compile, and kernels that keep registers in memory or leave a device to one wave.
pub fn write(file: &Path, only: &[String]) -> Result<String, Failure> {
    let compiler = Platform::Hip.compiler().map_err(|error| Failure(error.to_string()))?;
    let mut rows = HEADER.to_owned();
    let (mut known, mut count, mut wrong) = (Vec::new(), 0, Vec::new());
    let is_wanted = |name: &&&str| only.is_empty() || only.iter().any(|only| only == **name);
    for architecture in ARCHITECTURES.iter().filter(is_wanted) {
        if compiler.compile("extern \"C\" __global__ void nothing() {}", architecture).is_err() {
            println!("{architecture} is not known to {}", compiler.name().unwrap_or_default());
            continue;
        }
        known.push(*architecture);
        for problem in problems() {
            let (lines, faults) = compiled(&compiler, architecture, &problem)?;
            count += lines.len();
            rows.extend(lines);
            wrong.extend(faults);
        }
        // What is there so far can be read while the rest is compiled.
        fs::write(file, &rows).map_err(|error| Failure(format!("{}: {error}", file.display())))?;
    }
    if !wrong.is_empty() {
        return Err(Failure(format!("{} of {count} kernels:\n{}", wrong.len(), wrong.join("\n"))));
    }
    Ok(format!("{count} kernels for {}, none spills or is alone that is not known to", known.join(", ")))
}

/// The rows of a problem's kernels, and what is wrong with them.
fn compiled(
    compiler: &Compiler,
    architecture: &str,
    problem: &Problem,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let name = &problem.name;
    let failure = |error: String| Failure(format!("{architecture}: {name}: {error}"));
    let target = Target::of(architecture).ok_or_else(|| failure("is not a target".to_owned()))?;
    let options = Options { has_doubles: true, batch_invariant: false };
    let program = lower(&problem.graph, &target, options).map_err(failure)?;
    let mut source = c::preamble(Language::Hip);
    for kernel in &program.kernels {
        source.push_str(&c::kernel(&kernel.written.kernel, Language::Hip));
    }
    let code = compiler.compile(&source, architecture).map_err(|error| failure(error.to_string()))?;
    let told = kernels(&code).map_err(failure)?;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for Lowered { written, .. } in &program.kernels {
        let kernel = &written.kernel;
        let own = told.iter().find(|own| own.name == kernel.name);
        let own = own.ok_or_else(|| failure(format!("the code object lacks {}", kernel.name)))?;
        // What is given at launch.
        let shared = own.shared + c::shared_at_launch(kernel, Language::Hip) as u64;
        let own = Kernel { shared, threads: kernel.threads.into(), ..own.clone() };
        let waves = Registers::of(architecture).waves(&own, target.shared_of_unit);
        let Traffic { multiplies, bytes } = Traffic::of(kernel);
        let rate = if multiplies > 0.0 { 1024.0 * multiplies / bytes.max(1.0) } else { 0.0 };
        let [spilled, scalars] = own.spilled;
        let mut row = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            row,
            "{architecture},\"{name}\",{},{},{},{spilled},{scalars},{},{},{},{waves},{rate:.2}",
            own.name, own.registers, own.accumulators, own.scratch, own.shared, own.threads,
        );
        if (spilled > 0 || own.scratch > 0) && !is_known(&SPILLING, architecture, name) {
            wrong.push(format!("spills: {}", row.trim_end()));
        }
        if waves <= 1.0 && !is_known(&ALONE, architecture, name) {
            wrong.push(format!("one wave: {}", row.trim_end()));
        }
        rows.push(row);
    }
    Ok((rows, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_are_those_that_registers_and_shared_memory_hold() {
        let of = |registers, shared, threads, wave| Kernel {
            registers,
            shared,
            threads,
            wave,
            ..Kernel::default()
        };
        let cdna = Registers::of("gfx942");
        assert_eq!(cdna.waves(&of(129, 0, 256, 64), 64 << 10), 3.0);
        assert_eq!(cdna.waves(&of(64, 40 << 10, 256, 64), 64 << 10), 1.0);
        assert_eq!(cdna.waves(&of(8, 512, 64, 64), 64 << 10), 8.0);
        assert_eq!(Registers::of("gfx906").waves(&of(132, 0, 256, 64), 64 << 10), 1.0);
        assert_eq!(Registers::of("gfx1100").waves(&of(190, 27 << 10, 128, 32), 128 << 10), 4.0);
        assert_eq!(Registers::of("gfx1030").waves(&of(256, 0, 1024, 32), 128 << 10), 0.0);
    }

    #[test]
    fn every_problem_is_lowered_for_every_device() {
        for architecture in ARCHITECTURES {
            let target = Target::of(architecture).unwrap();
            for problem in problems() {
                let options = Options { has_doubles: true, batch_invariant: false };
                let program = lower(&problem.graph, &target, options).unwrap();
                let rates = program.kernels.iter().map(|own| Traffic::of(&own.written.kernel).multiplies);
                assert!(rates.fold(0.0, f64::max) > 0.0, "{architecture} {}", problem.name);
            }
        }
    }
}
