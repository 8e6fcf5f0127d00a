//! `cargo xtask ci` and `cargo xtask nightly`: the commands that test everything else.

use crate::Failure;
use crate::amd;
use crate::arm;
use crate::build_time;
use crate::extent::Extent;
use crate::fuzz;
use crate::lint;
use crate::nvidia;
use crate::ort;
use crate::process;
use crate::reproducible;
use crate::sanitize;
use crate::since;
use crate::soak;
use crate::test;
use crate::vulkan;
use crate::windows;
use crate::workspace::Workspace;

/// Tests a change: everything in short, or what the files changed since a revision concern.
///
/// Lint, the emulated GPU and NVIDIA's compiler run in parallel, since each leaves a core idle most of the time.
pub fn ci(workspace: &Workspace, since: Option<&str>) -> Result<(), Failure> {
    let parts = match since {
        None => since::everything(),
        Some(revision) => since::parts(&since::changed(workspace, revision)?),
    };
    if parts.is_empty() {
        println!("no file that is tested has changed");
        return Ok(());
    }
    let has = |part: &str| parts.contains(part);
    let mut others: Vec<test::Job> = Vec::new();
    if has(since::LINT) {
        others.push(Box::new(|steps| lint::run_steps(workspace, Extent::Change, steps)));
    }
    if has(since::AMD) {
        others.push(Box::new(|steps| amd::run_steps(workspace, &[], amd::Cases::Sample, steps)));
        others.push(Box::new(|steps| amd::check_kernels(workspace, amd::Cases::Sample, steps)));
    }
    let groups: Vec<&str> = test::names().into_iter().filter(|name| has(name)).collect();
    if since.is_some() {
        println!("runs {}", parts.into_iter().collect::<Vec<_>>().join(", "));
    }
    test::run_groups(workspace, &groups, Extent::Change, others)
}

/// Tests everything. Each part runs even if earlier ones failed.
pub fn nightly(workspace: &Workspace) -> Result<(), Failure> {
    let (long, on) = ("HIPDNN_TEST_LONG", "1");
    let own = std::env::current_exe()?;
    let cpu_plugin = ["test", "--locked", "-p", "hipdnn-cpu-plugin"];
    let parts = [
        process::show(process::command(own, ["test", "--whole"]).env(long, on)),
        lint::lint(workspace),
        process::show(workspace.cargo(cpu_plugin).env(long, on)),
        amd::test(workspace, &[], amd::Cases::BothOrders),
        nvidia::test(workspace, &[]),
        vulkan::test(workspace, &[]),
        test::with_torch(workspace, &[]),
        ort::test(workspace, &[]),
        arm::test(workspace, &[]),
        windows::test::run(workspace, &[]),
        sanitize::sanitize(workspace, None),
        fuzz::fuzz(workspace, 60, true, None),
        soak::soak(workspace, 5.0),
        build_time::check(workspace),
        reproducible::check(workspace),
    ];
    let failed: Vec<String> =
        parts.into_iter().filter_map(Result::err).map(|failure| failure.to_string()).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
}
