//! What is wrong with policies, as data.

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What kind of problem.
    pub kind: Kind,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

/// A part of a [`crate::Source`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What somebody may do with an agent.
    Agent {
        /// The agent.
        agent: String,
        /// Who.
        principal: String,
    },
    /// That a tool of an agent always needs approval.
    Always {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
    },
    /// What somebody may do with a loop.
    Loop {
        /// The loop.
        name: String,
        /// Who.
        principal: String,
    },
    /// Who may use a tool.
    Grant {
        /// The tool, or its source.
        tool: String,
        /// Who.
        principal: String,
    },
    /// A rule, by its place in the list.
    Rule(usize),
    /// An example of a rule.
    Example {
        /// The rule, by its place in the list.
        rule: usize,
        /// Whether it is among those that the rule is about.
        matches: bool,
        /// Its place among those.
        index: usize,
    },
    /// A part of a file that was written by hand.
    Written {
        /// The file.
        path: String,
        /// The first byte.
        start: usize,
        /// The byte after the last one.
        end: usize,
    },
}

/// What kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It is no Cedar.
    Syntax,
    /// It does not fit the schema: an attribute, a type, an action that does not exist.
    Type,
    /// It never applies. This does not stand in the way.
    Never,
    /// An annotation says what annotations cannot say.
    Annotation,
    /// An example says otherwise.
    Example,
    /// Two have one name.
    Duplicate,
    /// A value that cannot be used: a principal, a regular expression, a number.
    Value,
}

impl Problem {
    /// Whether it stands in the way.
    pub fn is_error(&self) -> bool {
        self.kind != Kind::Never
    }
}
