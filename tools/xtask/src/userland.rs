//! A folder with another system in it: Debian's current suite and some of its packages, made once, entered by chroot.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::process::{command, exists, run};
use crate::tools::{self, Tool};

/// The suite, which has the newest of everything.
const SUITE: &str = "sid";

const DEBOOTSTRAP: Tool = Tool::new("debootstrap", "debootstrap");

/// What a userland is made of.
pub struct Contents {
    /// The packages besides the smallest system.
    pub packages: &'static [&'static str],
    /// Another architecture whose packages are among them.
    pub foreign: Option<&'static str>,
}

/// A userland, made or yet to be made.
pub struct Userland {
    folder: PathBuf,
    contents: &'static Contents,
}

impl Userland {
    /// The userland in a folder, or why there can be none.
    pub fn find(folder: PathBuf, contents: &'static Contents) -> Result<Result<Self, String>, Failure> {
        if run(&mut command("id", ["-u"]))?.trim() != "0" {
            return Ok(Err("a folder with another system takes root to make and enter".to_owned()));
        }
        if !exists("debootstrap") && !exists("apt-get") {
            return Ok(Err("neither debootstrap nor apt-get is here to install packages".to_owned()));
        }
        let userland = Self { folder, contents };
        if !userland.complete() && mirror().is_none() {
            return Ok(Err("apt-get names no Debian archive to install packages from".to_owned()));
        }
        Ok(Ok(userland))
    }

    /// A path inside, as seen from outside.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.folder.join(relative)
    }

    /// A command inside.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = command("chroot", [&self.folder]);
        settings(&mut command).args(words);
        command
    }

    /// The beginning of a command inside that finds /proc there, which is mounted for it alone.
    pub fn command_with_proc(&self) -> Command {
        let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
        let mut command = command("unshare", ["--mount", "sh", "-c", script]);
        settings(&mut command).arg(&self.folder);
        command
    }

    /// Makes it, unless it is there.
    pub fn make(&self) -> Result<String, Failure> {
        if self.complete() {
            return Ok("there already".to_owned());
        }
        tools::require(&[&DEBOOTSTRAP])?;
        let mirror = mirror().ok_or_else(|| Failure::new("apt-get names no Debian archive"))?;
        if self.folder.exists() {
            // A download that was broken off. debootstrap leaves nothing mounted once it has ended.
            fs::remove_dir_all(&self.folder)?;
        }
        fs::create_dir_all(&self.folder)?;
        run(command("debootstrap", ["--variant=minbase", SUITE]).arg(&self.folder).arg(mirror))?;
        if let Some(architecture) = self.contents.foreign {
            run(&mut self.command(&["dpkg", "--add-architecture", architecture]))?;
            // An archive's copy may be older than its lists claim to be good for; debootstrap does not ask either.
            run(&mut self.command(&["apt-get", "-q", "-o", "Acquire::Check-Valid-Until=false", "update"]))?;
        }
        let mut install = self.command(&["apt-get", "install", "-y", "-q", "--no-install-recommends"]);
        run(install.args(self.contents.packages).env("DEBIAN_FRONTEND", "noninteractive"))?;
        fs::write(self.record(), self.contents.packages.join(" "))?;
        Ok(String::new())
    }

    /// The file that says which packages it has.
    fn record(&self) -> PathBuf {
        self.folder.join("hipdnn-packages")
    }

    fn complete(&self) -> bool {
        fs::read_to_string(self.record()).is_ok_and(|had| had == self.contents.packages.join(" "))
    }
}

/// The environment of a command inside.
fn settings(command: &mut Command) -> &mut Command {
    command.env_remove("LD_LIBRARY_PATH").env("HOME", "/root").env_remove("HIPDNN_PLUGIN_DIR")
}

/// The archive that this system's own packages come from.
fn mirror() -> Option<String> {
    let format = "$(SITE) $(ORIGIN) $(COMPONENT)";
    let targets =
        run(&mut command("apt-get", ["indextargets", "--format", format, "Created-By: Packages"])).ok()?;
    let sites = targets.lines().filter_map(|line| line.strip_suffix(" Debian main"));
    // The archive of security updates has nothing else.
    sites.filter(|site| !site.ends_with("-security")).map(str::to_owned).next()
}
