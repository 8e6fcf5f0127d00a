//! Checks that no function used for planning has a stack frame larger than 4 KiB, so that threads with small stacks can plan.
//! Frame sizes are what each function of a release build allocates between two calls.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::Failure;
use crate::process::command;

/// The largest allowed frame, including the return address: 4 KiB, plus a margin for the compiler's inlining.
const LIMIT: usize = 4096 + 512;

/// Parts of the names of functions that run only during execution.
const EXECUTED: &[&str] = &[
    // Kernels for an instruction set.
    "::simd::",
    "threading::partition::Workers",
    "pointwise::elements::Elements<T,_>::part",
    "attention::forward::Forward<T>::part",
    "batchnorm::rows::ChannelsLast<T>::pass_with",
    "conv::direct::problem::Direct<T>>::multiply",
    "conv::winograd::problem::Winograd<T>>::multiply",
    "conv::winograd::filter::pack",
    "tensor::recode::Recode<T>::convert",
    // Checks a usual number of tensors without allocating.
    "overlap::clash",
    // Opens a device, for which drivers need large stacks.
    "hipdnn_vulkan_plugin::gpu::Gpu::open",
    "hipdnn_vulkan_plugin::public::adopt",
];

/// Checks the functions of this project in a file with symbols, as cargo built it.
pub fn check(file: &Path) -> Result<String, Failure> {
    if !cfg!(target_arch = "x86_64") {
        return Ok("left out: frames are read on x86-64".to_owned());
    }
    let mut reader = Reader::default();
    disassembly(file, |line| reader.read(line))?;
    let frames = reader.finish();
    let planning = |frame: &&Frame| !EXECUTED.iter().any(|part| frame.function.contains(part));
    let Some(largest) = frames.iter().filter(planning).max_by_key(|frame| frame.bytes) else {
        return Err(Failure::new(format!("{} names no function of this project", file.display())));
    };
    let Frame { function, bytes } = largest;
    if *bytes > LIMIT {
        return Err(Failure::new(format!(
            "the frame of {function} has {bytes} bytes, more than {LIMIT}; call parts of it by `in_own_frame`, or keep what is large in \
             a box (or, if it only executes, name it in {})",
            file!()
        )));
    }
    Ok(format!("{} functions, at most {bytes} bytes", frames.iter().filter(planning).count()))
}

/// Reads the lines of a file's disassembly.
pub fn disassembly(file: &Path, mut read: impl FnMut(&str)) -> Result<(), Failure> {
    let mut objdump = command("objdump", ["--disassemble", "--demangle", "--no-show-raw-insn"]);
    let mut child = objdump.arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().ok_or_else(|| Failure::new("objdump has no output"))?;
    for line in BufReader::new(out).lines() {
        read(&line?);
    }
    if child.wait()?.success() { Ok(()) } else { Err(Failure::new("objdump failed")) }
}

struct Frame {
    function: String,
    bytes: usize,
}

/// Reads a disassembly line by line.
#[derive(Default)]
struct Reader {
    frames: Vec<Frame>,
    /// The current function, with its largest allocation between two calls: a function may set up its frame after an early return.
    at: Option<Frame>,
    /// The bytes allocated since the last call.
    taken: usize,
    /// Inside the loop that probes each page of a large frame.
    probes: bool,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some((_, name)) = line.split_once('<').filter(|_| line.ends_with(">:")) {
            self.end();
            let function = name.trim_end_matches(">:").to_owned();
            self.at = function.contains("hipdnn_").then_some(Frame { function, bytes: 0 });
            return;
        }
        if self.at.is_none() {
            return;
        }
        let mut words = line.split('\t').nth(1).unwrap_or_default().split_whitespace();
        let (operation, operands) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match operation {
            "push" => self.taken += 8,
            "sub" if !self.probes => self.taken += amount(operands, "$0x", ",%rsp"),
            "lea" => {
                let most = amount(operands, "-0x", "(%rsp),%r11");
                self.probes = self.probes || most > 0;
                self.taken += most;
            }
            "jne" => self.probes = false,
            "call" => self.called(),
            _ => (),
        }
    }

    fn called(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if let Some(frame) = &mut self.at {
            // Includes the return address.
            frame.bytes = frame.bytes.max(taken + 8);
        }
    }

    fn end(&mut self) {
        self.called();
        self.frames.extend(self.at.take());
        self.probes = false;
    }

    fn finish(mut self) -> Vec<Frame> {
        self.end();
        self.frames
    }
}

/// The number between these texts; 0 if there is none.
fn amount(operands: &str, before: &str, behind: &str) -> usize {
    let number = operands.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
    number.and_then(|number| usize::from_str_radix(number, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_what_functions_allocate_between_calls() {
        let text = "\
0000000000001000 <hipdnn_a::late>:
    1000:\tpush   %rbp
    1001:\ttest   %eax,%eax
    1002:\tjne    1100 <hipdnn_a::late+0x100>
    1003:\tsub    $0x118,%rsp
    1004:\tcall   *0x13ea70(%rip)
    1005:\tsub    $0x800,%rsp

0000000000002000 <hipdnn_b::two_pages<T>>:
    2000:\tsub    $0x1000,%rsp
    2001:\tmovq   $0x0,(%rsp)
    2002:\tsub    $0x20,%rsp

0000000000003000 <hipdnn_b::many_pages>:
    3000:\tlea    -0x6000(%rsp),%r11
    3001:\tsub    $0x1000,%rsp
    3002:\tmovq   $0x0,(%rsp)
    3003:\tcmp    %r11,%rsp
    3004:\tjne    3001 <hipdnn_b::many_pages+0x1>
    3005:\tsub    $0x208,%rsp

0000000000004000 <core::others>:
    4000:\tsub    $0x8000,%rsp
";
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.read(line));
        let frames: Vec<_> = reader.finish().into_iter().map(|frame| (frame.function, frame.bytes)).collect();
        let expected =
            [("hipdnn_a::late", 0x808), ("hipdnn_b::two_pages<T>", 0x1028), ("hipdnn_b::many_pages", 0x6210)];
        assert_eq!(frames, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    }
}
