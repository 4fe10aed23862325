//! A Lua script: its text and the hash under which Redis keeps it.

/// What several scripts share, put in the place of [`INCLUDE`].
const RECORDS: &str = include_str!("../../../../lua/include/records.lua");
const INCLUDE: &str = "-- include: records\n";

#[derive(Debug)]
pub(super) struct Script {
    name: &'static str,
    source: String,
    hash: String,
}

impl Script {
    pub fn new(name: &'static str, source: &str) -> Self {
        let source = source.replacen(INCLUDE, RECORDS, 1);
        let hash = redis::Script::new(&source).get_hash().to_owned();
        Self { name, source, hash }
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Runs it by its hash, which Redis knows once it has seen the source.
    pub fn evalsha(&self, keys: &[String], args: &[String]) -> redis::Cmd {
        Self::command("EVALSHA", &self.hash, keys, args)
    }

    /// Runs it by its source, which also makes its hash known.
    pub fn eval(&self, keys: &[String], args: &[String]) -> redis::Cmd {
        Self::command("EVAL", &self.source, keys, args)
    }

    fn command(name: &str, script: &str, keys: &[String], args: &[String]) -> redis::Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(keys.len()).arg(keys).arg(args);
        command
    }
}

/// The script of `lua/<name>.lua`, prepared once.
macro_rules! script {
    ($name:literal) => {
        std::sync::LazyLock::new(|| {
            $crate::adapters::redis::script::Script::new(
                $name,
                include_str!(concat!("../../../../../lua/", $name, ".lua")),
            )
        })
    };
}
pub(super) use script;
