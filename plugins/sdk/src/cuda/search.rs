//! Search paths for NVIDIA's libraries.
//!
//! In order: the folder in `HIPDNN_CUDA_PATH`, the loader's own search, the toolkit in `CUDA_PATH`, and the
//! folders into which pip installs NVIDIA's packages, next to the running Python.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::environment;
use crate::os::library::{VENDOR_FOLDERS, mapped_files, vendor_name};

/// Candidate paths of a library, given its file names in order of preference.
pub fn candidates(names: &[&str]) -> Vec<String> {
    let folder = |name: &str| environment::path(name).map(PathBuf::from);
    let maps = if environment::is_secure() { String::new() } else { mapped_files() };
    let packages = python_packages(&maps, folder("VIRTUAL_ENV").as_deref());
    let pip: Vec<PathBuf> = packages.iter().flat_map(|packages| pip_folders(packages)).collect();
    list(names, folder("HIPDNN_CUDA_PATH").as_deref(), folder("CUDA_PATH").as_deref(), &pip)
}

fn list(names: &[&str], own: Option<&Path>, toolkit: Option<&Path>, pip: &[PathBuf]) -> Vec<String> {
    let names: Vec<_> = names.iter().map(|name| vendor_name(name)).collect();
    let below = |root: &Path| VENDOR_FOLDERS.map(|folder| root.join(folder));
    let in_folders = |folders: &[PathBuf]| -> Vec<String> {
        let files = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(&**name)));
        files.filter(|file| file.is_file()).map(|file| file.to_string_lossy().into_owned()).collect()
    };
    let mut found = own.map(|root| in_folders(&below(root))).unwrap_or_default();
    found.extend(names.iter().map(|name| name.clone().into_owned()));
    found.extend(toolkit.map(|root| in_folders(&below(root))).unwrap_or_default());
    found.extend(in_folders(pip));
    found
}

/// The package folders of the Python in this process: those with mapped files, and the virtual environment's.
fn python_packages(maps: &str, environment: Option<&Path>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut add = |folder: PathBuf| {
        if !found.contains(&folder) {
            found.push(folder);
        }
    };
    for line in maps.lines() {
        let Some(path) = line.find('/').and_then(|at| line.get(at..)) else { continue };
        let is_packages = |name: &OsStr| name == "site-packages" || name == "dist-packages";
        let packages = Path::new(path).ancestors().find(|folder| folder.file_name().is_some_and(is_packages));
        packages.map(Path::to_owned).into_iter().for_each(&mut add);
        if let Some((root, _)) = path.split_once("/lib/libpython").or_else(|| path.split_once("/bin/python"))
        {
            of_prefix(Path::new(root)).into_iter().for_each(&mut add);
        }
    }
    environment.map(of_prefix).unwrap_or_default().into_iter().for_each(&mut add);
    found
}

/// The package folders below a prefix, for each Python version found.
fn of_prefix(prefix: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let versions = versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    versions.map(|version| version.path().join("site-packages")).filter(|folder| folder.is_dir()).collect()
}

/// The library folders of NVIDIA's packages: `nvidia/cu13/lib`, `nvidia/cudnn/lib` and the like.
fn pip_folders(packages: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(packages.join("nvidia")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = folders
        .map(|folder| folder.path().join(VENDOR_FOLDERS[2]))
        .filter(|folder| folder.is_dir())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_searched_in_the_documented_order() {
        let root = std::env::temp_dir().join(format!("cuda_search_{}", std::process::id()));
        let file = |path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        let own = file(&format!("own/{}/libx.so.2", VENDOR_FOLDERS[1]));
        let toolkit = file(&format!("toolkit/{}/libx.so.1", VENDOR_FOLDERS[2]));
        let pip =
            file(&format!("venv/lib/python3.12/site-packages/nvidia/x/{}/libx.so.2", VENDOR_FOLDERS[2]));
        let packages = python_packages("", Some(&root.join("venv")));
        let pip_folders: Vec<PathBuf> =
            packages.iter().flat_map(|packages| super::pip_folders(packages)).collect();
        let found = list(
            &["libx.so.2", "libx.so.1"],
            Some(&root.join("own")),
            Some(&root.join("toolkit")),
            &pip_folders,
        );
        fs::remove_dir_all(&root).unwrap();
        let found: Vec<_> = found.into_iter().map(PathBuf::from).collect();
        assert_eq!(found, [own, "libx.so.2".into(), "libx.so.1".into(), toolkit, pip]);
    }

    #[test]
    fn packages_of_the_running_python_are_found_by_what_is_mapped() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 5 /opt/v/lib/python3.12/site-packages/numpy/core.so\n\
                    7f01-7f02 r--p 00000000 08:01 6 /opt/v/lib/python3.12/site-packages/torch/lib/libtorch.so\n\
                    7f02-7f03 rw-p 00000000 00:00 0 [heap]\n";
        assert_eq!(python_packages(maps, None), [PathBuf::from("/opt/v/lib/python3.12/site-packages")]);
    }
}
