//! Why a text is not a variant.

use crate::scheduler::ParseSchedulerError;
use manycore_placement::{ParseMemoryPlacementError, ParsePolicyError};

/// Why a text is not a variant or a parameter. The message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariantError {
    /// The text is no item.
    #[error(
        "'{0}' is not a part of a variant; write place=PLACE, memory=MEMORY, workers=N, nice=N, sched=SCHEDULER, \
         env:NAME=VALUE, set:FILE=VALUE or cmd=COMMAND, and combine them with commas"
    )]
    Unknown(String),
    /// An item is given twice.
    #[error("{0} is given twice in one variant")]
    Twice(String),
    /// The text after `place=` is not a placement.
    #[error(transparent)]
    Place(#[from] ParsePolicyError),
    /// The text after `memory=` is not a memory policy.
    #[error(transparent)]
    Memory(#[from] ParseMemoryPlacementError),
    /// The text after `sched=` is not a scheduler.
    #[error(transparent)]
    Scheduler(#[from] ParseSchedulerError),
    /// A setting of the machine is wrong.
    #[error("{0}")]
    Setting(String),
    /// The text after `env:` is not an assignment.
    #[error("'env:{0}' sets no variable; write env:NAME=VALUE")]
    Environment(String),
    /// The text after `nice=` is not a niceness.
    #[error("'nice={0}' is not a niceness; write a whole number from -20 (most CPU time) to 19 (least)")]
    Nice(String),
    /// The text after `workers=` is not a number of workers.
    #[error("'workers={0}' is not a number of workers; write a whole number from 1 to 65536")]
    Workers(String),
    /// The text after `cmd=` cannot be split into words.
    #[error("'cmd={0}' is not a command: {1}")]
    Command(String, String),
    /// A name cannot be one.
    #[error(
        "'{0}' cannot be the name of a variant; begin it with a letter and use at most 40 letters, digits, '_', '-', '.' or '@'"
    )]
    Name(String),
    /// A name is probably a misspelt item.
    #[error(
        "'{name}=' is read as the name of a variant; did you mean {nearest}=? Otherwise use another name"
    )]
    NearlyKey {
        /// The name.
        name: String,
        /// The item with nearly the same name.
        nearest: &'static str,
    },
    /// Two variants have one name, or the label of another one.
    #[error("two variants are called '{0}'; give each of them a name of its own")]
    NameTwice(String),
    /// The reference is not a variant.
    #[error("no variant is called '{name}'; the variants are {known}")]
    Reference {
        /// What was requested.
        name: String,
        /// The names and labels.
        known: String,
    },
    /// A parameter is not written `NAME=VALUES`.
    #[error(
        "'{0}' is not a parameter; write NAME=VALUE,VALUE,... or NAME=FROM..TO, such as threads=1,2,4 or size=1..64*2"
    )]
    Parameter(String),
    /// A range of a parameter is empty or not a range.
    #[error(
        "'{0}' is not a range; write FROM..TO, FROM..TO+STEP or FROM..TO*FACTOR in whole numbers, from the smaller to the larger one"
    )]
    Range(String),
    /// A parameter has a value twice.
    #[error("the parameter {name} has the value '{value}' twice")]
    ValueTwice {
        /// The parameter.
        name: String,
        /// The value.
        value: String,
    },
    /// A parameter is given twice, or has a reserved name.
    #[error("the parameter {0} is given twice")]
    ParameterTwice(String),
    /// The name of a parameter has a meaning of its own.
    #[error("{{workers}} is the number of workers of a variant: give it with workers=N, or use another name")]
    Reserved,
    /// No variant has the place for a parameter.
    #[error("no variant uses {{{0}}}: put it where the values of the parameter belong")]
    Unused(String),
    /// A variant has a place for a parameter that is not given.
    #[error(
        "there is no --parameter '{name}' for {{{name}}} in '{text}'; for the text itself, write {{{{{name}}}}}"
    )]
    UnknownParameter {
        /// The name.
        name: String,
        /// Where it occurs.
        text: String,
    },
    /// The product of the parameters is too large.
    #[error(
        "{count} variants ({product}) are too many, at most {max} can be compared; compare one parameter after the other"
    )]
    TooMany {
        /// Number of variants.
        count: u64,
        /// Limit.
        max: usize,
        /// How they come about: `threads: 100 values, size: 100 values`.
        product: String,
    },
    /// There is nothing to compare.
    #[error(
        "only one variant is given; another one is needed to compare it with, such as --variant base= for the command as it is"
    )]
    One,
}
