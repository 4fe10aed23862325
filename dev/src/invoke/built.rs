//! The functions as `sam build` left them, and the files of `events/` that belong to each.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use harness::events::{self, Case};

use crate::stack::StartError;

/// Largest binary that is aimed for, in bytes: each start of a function reads all of it.
const BINARY_MAX_BYTES: u64 = 10_000_000;
/// Minor version of the C library, 2.x, that `provided.al2023` has.
const GLIBC_MAX: u32 = 34;
/// What names a version of the C library that a binary needs.
const GLIBC: &[u8] = b"GLIBC_2.";

/// One function.
#[derive(Debug)]
pub struct Function {
    /// As the template names it: `PlaceOrder`.
    pub name: String,
    /// As its folders are named: `place-order`.
    pub folder: String,
    /// Its program, an absolute path.
    pub program: PathBuf,
}

/// All of them, by name.
#[derive(Debug)]
pub struct Built {
    /// Where `sam build` left them and its template.
    pub folder: PathBuf,
    pub functions: Vec<Function>,
}

/// One file of `events/`.
#[derive(Debug)]
pub struct File {
    pub function: usize,
    pub case: Case,
}

impl Built {
    /// # Errors
    /// When nothing was built.
    pub fn read(folder: &Path) -> Result<Self, StartError> {
        let missing = |error: io::Error| format!("{}: {error}; `make build` makes it", folder.display());
        let folder = folder.canonicalize().map_err(missing)?;
        let mut functions = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let program = entry.path().join("bootstrap");
            if program.is_file() {
                let name = entry.file_name().to_string_lossy().into_owned();
                functions.push(Function { folder: dashed(&name), name, program });
            }
        }
        functions.sort_by(|one, other| one.name.cmp(&other.name));
        if functions.is_empty() {
            return Err(format!("no function in {}; `make build` makes them", folder.display()).into());
        }
        Ok(Self { folder, functions })
    }

    /// # Errors
    /// When there is no such function.
    pub fn function(&self, name: &str) -> Result<&Function, StartError> {
        let found = self.functions.iter().find(|function| function.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.functions.iter().map(|function| function.name.as_str()).collect();
            format!("no function {name} was built: there are {}", names.join(", ")).into()
        })
    }

    /// Every file of `events/`, with the function that it is for.
    ///
    /// # Errors
    /// When a function has no file, or a file no function.
    pub fn files(&self) -> Result<Vec<File>, StartError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../events");
        let mut folders = BTreeSet::new();
        for entry in fs::read_dir(&root)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        let mut files = Vec::new();
        for (index, function) in self.functions.iter().enumerate() {
            if !folders.remove(&function.folder) {
                return Err(format!("{} has no events", function.name).into());
            }
            files.extend(events::cases(&function.folder).into_iter().map(|case| File { function: index, case }));
        }
        if folders.is_empty() { Ok(files) } else { Err(format!("events of no function: {folders:?}").into()) }
    }

    /// Prints the size of each program, which is an aim, and the newest C library that it asks for; answers whether
    /// Lambda has that one.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn measure(&self) -> io::Result<bool> {
        let mut runs = true;
        println!("{:<16} {:>9}  needs glibc", "function", "bytes");
        for function in &self.functions {
            let program = fs::read(&function.program)?;
            let (bytes, glibc) = (program.len() as u64, newest_glibc(&program));
            let late = glibc.is_some_and(|minor| minor > GLIBC_MAX);
            let needs = glibc.map_or_else(|| "none".to_owned(), |minor| format!("2.{minor}"));
            let large = if bytes > BINARY_MAX_BYTES { "  more than 10 MB" } else { "" };
            let late_text = if late { "  NEWER THAN LAMBDA'S 2.34" } else { "" };
            println!("{:<16} {bytes:>9}  {needs}{large}{late_text}", function.name);
            runs &= !late;
        }
        Ok(runs)
    }
}

/// `PlaceOrder` as `place-order`.
fn dashed(name: &str) -> String {
    let mut dashed = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !dashed.is_empty() {
            dashed.push('-');
        }
        dashed.push(letter.to_ascii_lowercase());
    }
    dashed
}

/// The newest version 2.x of the C library among those that a program names.
fn newest_glibc(program: &[u8]) -> Option<u32> {
    let named = program.windows(GLIBC.len()).enumerate().filter(|(_, bytes)| *bytes == GLIBC);
    let minors = named.filter_map(|(at, _)| {
        let rest = &program[at + GLIBC.len()..];
        let digits: String = rest.iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| *byte as char).collect();
        digits.parse().ok()
    });
    minors.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_as_functions_are() {
        assert_eq!(dashed("PlaceOrder"), "place-order");
        assert_eq!(dashed("Query"), "query");
    }

    #[test]
    fn the_newest_c_library_counts() {
        assert_eq!(newest_glibc(b"..GLIBC_2.4\0GLIBC_2.17\0GLIBC_2.2.5\0"), Some(17));
        assert_eq!(newest_glibc(b"static"), None);
    }
}
