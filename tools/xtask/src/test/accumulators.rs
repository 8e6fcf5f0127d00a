//! Checks that the loops of kernels keep their sums in registers. Where the compiler has too few, it may keep a sum in a stack slot,
//! and load and store it around each multiply-add: the loop then waits for memory in each step.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::frames::disassembly;
use crate::Failure;
use crate::process::{command, run};

/// A sum through memory takes about ten cycles, in which processors start two multiply-adds each: a loop with as many does not wait.
const HIDDEN: usize = 20;

/// Parts of the places of loops that have sums in memory today, and how many loops. Each costs time: lower the number when one is
/// mended. They are parts of files or of the names of inlined functions.
const KNOWN: &[(&str, usize)] = &[
    ("conv/winograd/exact.rs", 6),
    ("depthwise/accumulators.rs", 3),
    ("depthwise/pixels.rs", 10),
    ("depthwise/rows.rs", 2),
    ("norm/statistics.rs", 1),
];

/// Checks a file with symbols and lines, as cargo built it.
pub fn check(file: &Path) -> Result<String, Failure> {
    if !cfg!(target_arch = "x86_64") {
        return Ok("left out: registers are read on x86-64".to_owned());
    }
    let mut reader = Reader::default();
    disassembly(file, |line| reader.read(line))?;
    let found = reader.finish();
    let places = places(file, &found)?;
    let (mut counts, mut wrong) = (BTreeMap::new(), String::new());
    for (spilled, place) in found.iter().zip(places.iter().map(String::as_str).chain(std::iter::repeat(""))) {
        let known = KNOWN.iter().find(|(part, _)| place.contains(part));
        let count = counts.entry(known).or_insert(0);
        *count += 1;
        if known.is_none_or(|(_, most)| *count > *most) {
            let Spilled { function, address, sums, products } = spilled;
            wrong += &format!("\n  {address:#x} {function}, {place}: {sums} sums, {products} multiply-adds");
        }
    }
    if wrong.is_empty() {
        return Ok(format!("but in {} known loops", found.len()));
    }
    Err(Failure::new(format!("loops keep sums in memory; give them fewer, or fewer other values:{wrong}")))
}

/// Where the kernels' sources have these instructions: lines within inlined functions, innermost first.
fn places(file: &Path, found: &[Spilled]) -> Result<Vec<String>, Failure> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let mut addr2line =
        command("addr2line", ["--addresses", "--inlines", "--functions", "--demangle", "--exe"]);
    addr2line.arg(file).args(found.iter().map(|spilled| format!("{:#x}", spilled.address)));
    Ok(sources(&run(&mut addr2line)?))
}

/// For each address the lines of kernels, each with its function's name.
fn sources(lines: &str) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    let mut function = "";
    for line in lines.lines() {
        if line.starts_with("0x") {
            places.push(String::new());
        } else if let (Some(place), Some((_, source))) = (places.last_mut(), line.split_once("/cpu/src/")) {
            let source = source.split(' ').next().unwrap_or_default();
            if !source.starts_with("simd/") {
                *place += if place.is_empty() { "" } else { " < " };
                *place += &format!("{source} {}", function.replace("hipdnn_cpu_plugin::", ""));
            }
        }
        function = line;
    }
    places
}

/// A loop with sums in memory.
#[derive(Debug, PartialEq)]
struct Spilled {
    function: String,
    /// Of the first multiply-add to such a sum.
    address: u64,
    /// How many sums are in memory.
    sums: usize,
    /// The multiply-adds of the loop.
    products: usize,
}

/// Reads a disassembly line by line.
#[derive(Default)]
struct Reader {
    function: String,
    /// The current function's instructions, with their addresses.
    code: Vec<(u64, String)>,
    found: Vec<Spilled>,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some((_, name)) = line.split_once('<').filter(|_| line.ends_with(">:")) {
            self.end();
            self.function = name.trim_end_matches(">:").to_owned();
        } else if let Some((address, instruction)) = line.split_once(":\t")
            && let Ok(address) = u64::from_str_radix(address.trim_start(), 16)
        {
            self.code.push((address, instruction.to_owned()));
        }
    }

    fn end(&mut self) {
        let code = std::mem::take(&mut self.code);
        if !code.iter().any(|(_, instruction)| Product::of(instruction).is_some()) {
            return;
        }
        for body in loops(&code) {
            let products = body.iter().filter(|(_, instruction)| Product::of(instruction).is_some()).count();
            let sums = in_memory(body);
            let slow = |steps: &&BTreeSet<u64>| products < HIDDEN * steps.len();
            let slow: Vec<_> = sums.values().filter(slow).flatten().copied().collect();
            let Some(address) = slow.iter().min().copied() else { continue };
            // Loops with two jumps back are seen twice.
            if self.found.iter().all(|spilled| spilled.address != address) {
                let function = self.function.clone();
                self.found.push(Spilled { function, address, sums: slow.len(), products });
            }
        }
    }

    fn finish(mut self) -> Vec<Spilled> {
        self.end();
        self.found
    }
}

/// The innermost loops: what lies between the target of a jump back and the jump.
fn loops(code: &[(u64, String)]) -> Vec<&[(u64, String)]> {
    let back = code.iter().enumerate().filter_map(|(last, (_, instruction))| {
        let target = instruction.strip_prefix('j')?.split_whitespace().nth(1)?;
        let target = u64::from_str_radix(target, 16).ok()?;
        let first = code.get(..=last)?.binary_search_by_key(&target, |(address, _)| *address).ok()?;
        Some((first, last))
    });
    let back: Vec<_> = back.collect();
    let has_inner = |&(first, last): &(usize, usize)| back.iter().any(|&(f, l)| first < f && l <= last);
    let innermost = back.iter().filter(|jump| !has_inner(jump));
    innermost.filter_map(|&(first, last)| code.get(first..=last)).collect()
}

/// The stack slots that are loaded, added to and stored in a loop, with the addresses of the additions.
fn in_memory(body: &[(u64, String)]) -> BTreeMap<&str, BTreeSet<u64>> {
    let mut sums: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    // The slots that registers were loaded from, with the additions since.
    let mut registers: BTreeMap<&str, (&str, Option<u64>)> = BTreeMap::new();
    // Twice: a sum may be stored in the next step.
    let last = body.last().map(|(address, _)| *address);
    for (address, instruction) in body.iter().chain(body) {
        let (operation, operands) = split(instruction);
        // What follows is reached from elsewhere, but for the jump back.
        if matches!(operation, "call" | "jmp" | "ret") && Some(*address) != last {
            registers.clear();
        }
        let Some(&to) = operands.last().filter(|_| operation.starts_with('v')) else { continue };
        let moved = operands.first().filter(|_| operation.starts_with("vmov") && operands.len() == 2);
        if is_slot(to) {
            let value = moved.and_then(|from| registers.get(number(from)?));
            if let Some(&(_, Some(addition))) = value.filter(|(slot, _)| *slot == to) {
                sums.entry(to).or_default().insert(addition);
            }
            registers.retain(|_, (slot, _)| *slot != to);
        } else if let Some(to) = number(to) {
            let value = |from: &&'_ str| match number(from) {
                Some(from) => registers.get(from).copied(),
                None => None,
            };
            let loaded =
                |from| operands.iter().copied().find(|&o| o == from && is_slot(o)).map(|o| (o, None));
            let value = match (Product::of(instruction), moved) {
                (Some(product), _) => {
                    let addend = operands.get(product.addend);
                    let value = addend.and_then(|addend| value(addend).or_else(|| loaded(*addend)));
                    value.map(|(slot, _)| (slot, Some(*address)))
                }
                (None, Some(from)) => value(from).or_else(|| loaded(*from)),
                (None, None) => None,
            };
            match value {
                Some(value) => _ = registers.insert(to, value),
                None => _ = registers.remove(to),
            }
        }
    }
    sums
}

/// A multiply-add of vectors.
struct Product {
    /// Which operand it adds to.
    addend: usize,
}

impl Product {
    fn of(instruction: &str) -> Option<Self> {
        // Most instructions are none.
        let rest = instruction.strip_prefix('v')?;
        if !rest.contains("%ymm") && !rest.contains("%zmm") {
            return None;
        }
        if rest.starts_with("dpbf16ps") || rest.starts_with("pdp") {
            return Some(Self { addend: 2 });
        }
        let rest = ["fmadd", "fnmadd", "fmsub", "fnmsub"].iter().find_map(|kind| rest.strip_prefix(kind))?;
        let order = rest.split_at_checked(3).filter(|(_, rest)| rest.starts_with('p'));
        match order?.0 {
            "132" => Some(Self { addend: 1 }),
            "213" => Some(Self { addend: 0 }),
            "231" => Some(Self { addend: 2 }),
            _ => None,
        }
    }
}

/// The operation, and its operands.
fn split(instruction: &str) -> (&str, Vec<&str>) {
    let mut words = instruction.split_whitespace();
    let (operation, operands) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut inside = false;
    let separates = |c: char| {
        inside = (inside || c == '(') && c != ')';
        c == ',' && !inside
    };
    (operation, operands.split(separates).collect())
}

fn is_slot(operand: &str) -> bool {
    operand.ends_with("(%rsp)")
}

/// The number of a vector register, whatever its width.
fn number(operand: &str) -> Option<&str> {
    let register = operand.strip_prefix('%')?.split('{').next()?;
    let (kind, number) = register.split_at_checked(3)?;
    ["xmm", "ymm", "zmm"].contains(&kind).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Vec<(u64, usize, usize)> {
        let mut reader = Reader::default();
        let text = format!("0000000000001000 <hipdnn_a::f>:\n{body}");
        text.lines().for_each(|line| reader.read(line));
        reader.finish().into_iter().map(|s| (s.address, s.sums, s.products)).collect()
    }

    #[test]
    fn sums_in_memory_are_found_in_loops() {
        let step = "\
    1010:\tvmovaps 0x60(%rsp),%ymm1
    1016:\tvfmadd231ps %ymm14,%ymm15,%ymm1
    101b:\tvmovaps %ymm1,0x60(%rsp)
    1021:\tvfmadd231ps (%rax,%rbx,4),%ymm15,%ymm11
";
        assert_eq!(found(&format!("{step}    1030:\tjne    1010 <hipdnn_a::f+0x10>\n")), [(0x1016, 1, 2)]);
        assert_eq!(found(&format!("{step}    1030:\tjne    1021 <hipdnn_a::f+0x21>\n")), []);
    }

    #[test]
    fn sums_may_be_moved_and_stored_in_the_next_step() {
        let body = "\
    1000:\tvmovups %zmm2,0x40(%rsp)
    1008:\tvmovups (%rax),%zmm3
    1010:\tvfmadd213ps 0x40(%rsp),%zmm3,%zmm1
    1018:\tvmovaps %zmm1,%zmm2
    1020:\tjb     1000 <hipdnn_a::f>
";
        assert_eq!(found(body), [(0x1010, 1, 1)]);
    }

    #[test]
    fn long_loops_and_other_values_in_memory_pass() {
        let long: String =
            (0..20).map(|i| format!("    {:x}:\tvfmadd231ps %ymm2,%ymm3,%ymm4\n", 0x1100 + i)).collect();
        let body = |first: &str| {
            format!(
                "    1000:\t{first}\n    1010:\tvfmadd231ps %ymm2,%ymm3,%ymm1\n    1020:\tvmovaps %ymm1,0x60(%rsp)\n"
            )
        };
        let back = "    1200:\tjne    1000 <hipdnn_a::f>\n";
        assert_eq!(found(&format!("{}{back}", body("vmovaps 0x60(%rsp),%ymm1"))).len(), 1);
        assert_eq!(found(&format!("{}{long}{back}", body("vmovaps 0x60(%rsp),%ymm1"))), []);
        // A factor is loaded; another slot is.
        assert_eq!(found(&format!("{}{back}", body("vmovaps 0x60(%rsp),%ymm2"))), []);
        assert_eq!(found(&format!("{}{back}", body("vmovaps 0x80(%rsp),%ymm1"))), []);
    }

    #[test]
    fn places_are_the_lines_of_kernels() {
        let lines = "\
0x0000000000001016
hipdnn_cpu_plugin::simd::isa::run_avx2
/rustc/1/library/core/src/fma.rs:77
mul_add
/a/plugins/cpu/src/simd/vector.rs:417
add<hipdnn_cpu_plugin::gemm::Rows<f32>, 4>
/a/plugins/cpu/src/gemm/register.rs:78
multiply
/a/plugins/cpu/src/gemm/multiply.rs:210 (discriminator 2)
0x0000000000002000
??
??:0
";
        let place = "gemm/register.rs:78 add<gemm::Rows<f32>, 4> < gemm/multiply.rs:210 multiply";
        assert_eq!(sources(lines), [place, ""]);
    }
}
