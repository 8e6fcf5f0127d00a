//! A chroot folder with a suite of Debian and some packages, created once for all clones.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::cache;
use crate::process::{command, exists, run};
use crate::tools::{self, Tool};

/// The suite that has the newest of everything.
pub const NEWEST: &str = "sid";

const DEBOOTSTRAP: Tool = Tool::new("debootstrap", "debootstrap");

/// The contents of a userland.
pub struct Contents {
    /// Debian's suite.
    pub suite: &'static str,
    /// The packages besides the minimal system.
    pub packages: &'static [&'static str],
    /// Another architecture whose packages are among them.
    pub foreign: Option<&'static str>,
}

/// A userland, which may not exist yet.
pub struct Userland {
    folder: PathBuf,
    contents: &'static Contents,
    /// Held while the userland is used, since clones would overwrite each other's files in it.
    _lock: File,
}

impl Userland {
    /// The userland in a folder, created if necessary. None if that is impossible, which is then reported. Waits while another
    /// process uses it.
    pub fn ready(
        folder: PathBuf,
        contents: &'static Contents,
        wanted_by: &str,
    ) -> Result<Option<Self>, Failure> {
        let lock = cache::lock(&folder, wanted_by)?;
        let userland = Self { folder, contents, _lock: lock };
        let missing = match userland.missing()? {
            Some(missing) => Some(missing),
            None if userland.complete() => None,
            None => {
                println!("{wanted_by}: installing {} packages from Debian", contents.packages.len());
                // An unreachable archive, or packages that do not install, say nothing about what is tested.
                userland.make().err().map(|failure| failure.to_string())
            }
        };
        if let Some(missing) = &missing {
            println!("{wanted_by} is left out: {missing}");
        }
        Ok(missing.is_none().then_some(userland))
    }

    /// The missing requirement, if any.
    fn missing(&self) -> Result<Option<String>, Failure> {
        Ok(if run(&mut command("id", ["-u"]))?.trim() != "0" {
            Some("a folder with another system takes root to make and enter".to_owned())
        } else if !exists("debootstrap") && !exists("apt-get") {
            Some("neither debootstrap nor apt-get is here to install packages".to_owned())
        } else if !self.complete() && mirror().is_none() {
            Some("apt-get names no Debian archive to install packages from".to_owned())
        } else {
            None
        })
    }

    /// The outside path of a path inside.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.folder.join(relative)
    }

    /// A command inside.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = command("chroot", [&self.folder]);
        settings(&mut command).args(words);
        command
    }

    /// The beginning of a command inside with /proc, which is mounted only for it.
    pub fn command_with_proc(&self) -> Command {
        let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
        let mut command = command("unshare", ["--mount", "sh", "-c", script]);
        settings(&mut command).arg(&self.folder);
        command
    }

    fn make(&self) -> Result<(), Failure> {
        tools::require(&[&DEBOOTSTRAP])?;
        let mirror = mirror().ok_or_else(|| Failure::new("apt-get names no Debian archive"))?;
        // Remove an interrupted userland, or one with other packages. debootstrap leaves nothing mounted.
        if self.begun().exists() {
            fs::remove_dir_all(&self.folder)?;
            fs::create_dir_all(&self.folder)?;
        } else if fs::read_dir(&self.folder)?.next().is_some() {
            let folder = self.folder.display();
            return Err(Failure::new(format!(
                "{folder} is neither empty nor a folder that this command has made"
            )));
        }
        fs::write(self.begun(), "made by cargo xtask\n")?;
        run(command("debootstrap", ["--variant=minbase", self.contents.suite])
            .arg(&self.folder)
            .arg(mirror))?;
        if let Some(architecture) = self.contents.foreign {
            run(&mut self.command(&["dpkg", "--add-architecture", architecture]))?;
            // A mirror's lists may have expired; debootstrap ignores that, too.
            run(&mut self.command(&["apt-get", "-q", "-o", "Acquire::Check-Valid-Until=false", "update"]))?;
        }
        let mut install = self.command(&["apt-get", "install", "-y", "-q", "--no-install-recommends"]);
        run(install.args(self.contents.packages).env("DEBIAN_FRONTEND", "noninteractive"))?;
        fs::write(self.record(), self.contents.packages.join(" "))?;
        Ok(())
    }

    /// The file that marks the folder as ours to remove, written before its first package.
    fn begun(&self) -> PathBuf {
        self.folder.join("hipdnn-userland")
    }

    /// The file that lists its packages.
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

/// The archive of this system's own packages.
fn mirror() -> Option<String> {
    let format = "$(SITE) $(ORIGIN) $(COMPONENT)";
    let targets =
        run(&mut command("apt-get", ["indextargets", "--format", format, "Created-By: Packages"])).ok()?;
    let sites = targets.lines().filter_map(|line| line.strip_suffix(" Debian main"));
    // The archive of security updates has only those.
    sites.filter(|site| !site.ends_with("-security")).map(str::to_owned).next()
}
