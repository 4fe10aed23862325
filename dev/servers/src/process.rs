//! A child process that cannot outlive this one, and what it started itself neither.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Waits until the pipe from this process closes, which the kernel does however this process
/// ends, and then sends the signal in `$1` to the process in `$0` and to its group.
const WATCH: &str = r#"read -r line; kill -s "$1" -- "-$0""#;

/// A child process with a group of its own, all of which is killed on drop. When this process is
/// killed itself and drops nothing, a watcher beside the child does it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    watcher: Child,
}

impl Process {
    /// Starts `command` without input and output.
    ///
    /// # Errors
    /// When the program or `sh` cannot be started; the text names the program.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Self::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()), "KILL")
    }

    /// Starts `command` with the input and output that it has. `signal` is what its group is sent when
    /// this process is killed: `TERM` for one that has to put something away then.
    ///
    /// # Errors
    /// When the program or `sh` cannot be started; the text names the program.
    pub fn spawn(command: &mut Command, signal: &str) -> io::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot start {program}: {error}"));
        let mut child = own_group(command).spawn().map_err(named)?;
        match watch(child.id(), signal) {
            Ok(watcher) => Ok(Self { child, watcher }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How the child ended; `None` while it runs.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends a signal by its name without `SIG`.
    ///
    /// # Errors
    /// When `sh` cannot be started or the child is gone.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let status = Command::new("sh")
            .args(["-c", r#"kill -s "$0" "$1""#, name, &self.id().to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if status.success() {
            return Ok(());
        }
        let text = format!("cannot send {name} to process {}", self.id());
        Err(io::Error::new(io::ErrorKind::NotFound, text))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watcher goes last but before its pipe closes: the child's id may be another
        // process's by then.
        if matches!(self.child.try_wait(), Ok(None)) {
            // At once, and not reaped yet: its id is still that of its group and nobody else's.
            let _ = self.child.kill();
            kill_group(self.child.id());
        }
        end(&mut self.child);
        end(&mut self.watcher);
    }
}

/// A group of its own, so that Ctrl-C in a terminal reaches this process first, which stops its
/// servers in order, and so that what a child started ends with it.
fn own_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

fn watch(id: u32, signal: &str) -> io::Result<Child> {
    own_group(Command::new("sh").args(["-c", WATCH, &id.to_string(), signal]))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Kills what is left of a group.
fn kill_group(id: u32) {
    let kill = Command::new("sh")
        .args(["-c", r#"kill -s KILL -- "-$0""#, &id.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // It fails only without `sh`, and then the leader is dead all the same.
    let _ = kill;
}

/// Kills and reaps; both fail only when the child is gone already.
fn end(child: &mut Child) {
    let _ = child.kill();
    // `Child::wait` would close the pipe of a watcher, which is dead by now.
    let _ = child.wait();
}
