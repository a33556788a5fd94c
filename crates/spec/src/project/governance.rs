//! Rules, budgets, hooks and routing of a project.

use std::collections::BTreeMap;

use weir_types::{Effect, Risk};

use super::{Mentions, RulePlaces};
use crate::Principal;
use crate::diagnostic::{Findings, Span, Spanned};
use crate::fields::{Fields, as_json};
use crate::format;
use crate::node::{Entry, Value};
use crate::rules::{
    Budget, Condition, Example, Examples, Hold, Hook, HookAction, Hooks, Lane, Mode, Rollback, Routing, Rule,
    Scope, Test, Verdict,
};
use crate::shape::{Choice, Kind, Shape, optional, planned, required, words};
use crate::terms;

pub(super) static RULE: Shape = Shape {
    what: "a rule",
    doc: "What happens to some calls. The first rule that matches, from the top, decides.",
    fields: &[
        required("id", "id: no-shell", Kind::Format(&format::NAME), "What decisions are explained with."),
        optional("when", Kind::Shape(&CONDITION), "Which calls it is about; all of them, if absent."),
        required("then", "then: require_approval", Kind::Word(|| words(VERDICTS)), "What happens to them."),
        optional("why", Kind::Text, "What people are told."),
        optional("mode", Kind::Word(|| words(MODES)), "Whether it takes effect, or is only written down."),
        terms::WITHIN,
        terms::ESCALATE,
        optional("examples", Kind::Shape(&EXAMPLES), "Calls that show what it means. They are checked."),
    ],
    choice: Choice::Free,
    instead: &[
        (
            "priority",
            "remove it: the first rule that matches decides, so their order in the file is their priority",
        ),
        ("name", "write `id`"),
        ("if", "write `when`"),
        ("match", "write `when`"),
        ("action", "write `then`"),
        ("effect", "write `then`; what a call does to the world is `effect` within `when`"),
        ("reason", "write `why`"),
    ],
};

static CONDITION: Shape = Shape {
    what: "`when`",
    doc: "Which calls a rule is about. Everything that is there has to hold.",
    fields: &[
        optional(
            "tool",
            Kind::Text,
            "The name the model sees, an entry such as `fs`, or a pattern with `*`.",
        ),
        optional("source", Kind::Text, "Where the tool comes from, or a pattern with `*`."),
        optional("effect", Kind::Word(|| words(EFFECTS)), "What repeating the call does."),
        optional("risk_at_least", Kind::Word(|| words(RISKS)), "How bad a wrong call can be, at least."),
        optional("principal", Kind::Format(&format::PRINCIPAL), "Who asks."),
        optional("group", Kind::Format(&format::NAME), "A group of which whoever asks is a member."),
        optional("agent", Kind::Format(&format::NAME), "Whose call it is."),
        optional(
            "input",
            Kind::Map(&format::INPUT_PATH, &Kind::Either(&Kind::Json, &TEST)),
            "What the arguments say, by their path.",
        ),
        optional("all", Kind::Some(&Kind::Shape(&CONDITION)), "All of these hold."),
        optional("any", Kind::Some(&Kind::Shape(&CONDITION)), "One of these holds."),
        optional("not", Kind::Shape(&CONDITION), "This does not hold."),
    ],
    choice: Choice::Free,
    instead: &[("risk", "write `risk_at_least`"), ("user", "write `principal`"), ("args", "write `input`")],
};

static TEST: Shape = Shape {
    what: "a comparison",
    doc: "What an argument is compared with.",
    fields: &[
        optional(
            "matches",
            Kind::Format(&format::PATTERN),
            "It is text in which this regular expression is found.",
        ),
        optional("one_of", Kind::Some(&Kind::Json), "It is one of these values."),
        optional("above", Kind::Number, "It is a number above this one."),
        optional("below", Kind::Number, "It is a number below this one."),
    ],
    choice: Choice::One(&["matches", "one_of", "above", "below"]),
    instead: &[
        ("in", "write `one_of`"),
        ("gt", "write `above`"),
        ("lt", "write `below`"),
        ("regex", "write `matches`"),
    ],
};

static EXAMPLES: Shape = Shape {
    what: "`examples`",
    doc: "Calls that show what a rule means.",
    fields: &[
        optional("matches", Kind::List(&Kind::Shape(&EXAMPLE)), "Calls it is about."),
        optional("not", Kind::List(&Kind::Shape(&EXAMPLE)), "Calls it is not about."),
    ],
    choice: Choice::Some(&["matches", "not"]),
    instead: &[],
};

static EXAMPLE: Shape = Shape {
    what: "an example",
    doc: "One call.",
    fields: &[
        required("tool", "tool: bash", Kind::Text, "The tool, by the name the model sees."),
        optional("input", Kind::Object, "Its arguments."),
        optional("principal", Kind::Format(&format::PRINCIPAL), "Who asks."),
        optional("agent", Kind::Format(&format::NAME), "Whose call it is."),
    ],
    choice: Choice::Free,
    instead: &[],
};

pub(super) static BUDGETS: Shape = Shape {
    what: "`budgets`",
    doc: "What may be used.",
    fields: &[
        optional("per_run", Kind::Shape(&BUDGET), "By one run."),
        optional("per_session", Kind::Shape(&BUDGET), "By one session, with its branches."),
        optional("per_agent", Kind::Shape(&BUDGET), "By one agent a day."),
        optional("per_principal", Kind::Shape(&BUDGET), "By whoever asks, a day."),
        optional("per_day", Kind::Shape(&BUDGET), "By the whole project a day, in UTC."),
    ],
    choice: Choice::Free,
    instead: &[("daily", "write `per_day`"), ("usd", "say over what it is counted: `per_day: { usd: … }`")],
};

static BUDGET: Shape = Shape {
    what: "a budget",
    doc: "What may be used.",
    fields: &[
        optional("usd", Kind::Usd, "Money, in dollars."),
        optional("tokens", Kind::Count, "Tokens of all requests and answers."),
        optional("model_calls", Kind::Count, "Calls of the model."),
        optional("wall_clock", Kind::Duration, "Time, without waiting for people."),
    ],
    choice: Choice::Some(&["usd", "tokens", "model_calls", "wall_clock"]),
    instead: &[],
};

pub(super) static HOOKS: Shape = Shape {
    what: "`hooks`",
    doc: "What happens around every append to the journal.",
    fields: &[
        optional(
            "pre_append",
            Kind::List(&Kind::Shape(&HOOK)),
            "May refuse what comes from outside, before it is written down. They are asked in this order, and one that fails refuses.",
        ),
        planned("post_append", Kind::List(&Kind::Shape(&HOOK)), "React to an event."),
    ],
    choice: Choice::Free,
    instead: &[],
};

static HOOK: Shape = Shape {
    what: "a hook",
    doc: "What is done when an event is appended.",
    fields: &[
        optional(
            "run",
            Kind::Text,
            "A program and its arguments; started without a shell, with the event as JSON on its standard input. Any end but 0 refuses, with what it wrote to standard error.",
        ),
        optional(
            "script",
            Kind::Format(&format::PATH),
            "A script of the project: `export default (event) => …`. What it throws, `false` and `{ refuse: \"why\" }` refuse.",
        ),
        optional(
            "kinds",
            Kind::Some(&Kind::Format(&format::EVENT_KIND)),
            "The kinds of events it is about; all that it can be about, if absent.",
        ),
        optional("timeout", Kind::Duration, "How long it may take; `5s` by default."),
    ],
    choice: Choice::One(&["run", "script"]),
    instead: &[],
};

pub(super) static ROUTING: Shape = Shape {
    what: "`routing`",
    doc: "Where turns run.",
    fields: &[
        optional(
            "default",
            Kind::Word(|| words(LANES)),
            "The lane that is taken when nothing else says so; `direct` by default.",
        ),
        optional(
            "canary_pct",
            Kind::Whole(100),
            "How many of a hundred new sessions take the managed lane instead.",
        ),
        optional(
            "allow",
            Kind::List(&Kind::Format(&format::PRINCIPAL)),
            "Whose sessions always take the managed lane.",
        ),
        optional("deny", Kind::List(&Kind::Format(&format::PRINCIPAL)), "Whose sessions never do."),
        optional("hold", Kind::Shape(&HOLD), "When the canary stops growing."),
        optional("rollback", Kind::Shape(&ROLLBACK), "When it is taken back."),
    ],
    choice: Choice::Free,
    instead: &[],
};

static HOLD: Shape = Shape {
    what: "`hold`",
    doc: "When the canary stops growing.",
    fields: &[
        optional(
            "delivered_pp",
            Kind::Whole(100),
            "Fewer answers delivered, in percentage points; 2 by default.",
        ),
        optional("cost_pct", Kind::Whole(1_000), "More cost, in percent; 10 by default."),
        optional("first_token_pct", Kind::Whole(1_000), "A later first token, in percent; 25 by default."),
    ],
    choice: Choice::Free,
    instead: &[],
};

static ROLLBACK: Shape = Shape {
    what: "`rollback`",
    doc: "When the canary is taken back.",
    fields: &[
        optional(
            "delivered_pp",
            Kind::Whole(100),
            "Fewer answers delivered, in percentage points; 5 by default.",
        ),
        optional("within", Kind::Duration, "Counted over this time; `24h` by default."),
    ],
    choice: Choice::Free,
    instead: &[],
};

const VERDICTS: &[(&str, Verdict)] =
    &[("allow", Verdict::Allow), ("deny", Verdict::Deny), ("require_approval", Verdict::RequireApproval)];
const MODES: &[(&str, Mode)] = &[("enforce", Mode::Enforce), ("observe", Mode::Observe)];
const EFFECTS: &[(&str, Effect)] =
    &[("read", Effect::Read), ("idempotent", Effect::Idempotent), ("write", Effect::Write)];
const RISKS: &[(&str, Risk)] = &[("low", Risk::Low), ("medium", Risk::Medium), ("high", Risk::High)];
const LANES: &[(&str, Lane)] = &[("direct", Lane::Direct), ("managed", Lane::Managed)];

pub(super) fn rules(
    fields: &Fields<'_>,
    mentions: &mut Mentions,
    findings: &mut Findings,
) -> Vec<(Spanned<Rule>, RulePlaces)> {
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    let mut rules: Vec<(Spanned<Rule>, RulePlaces)> = Vec::new();
    for inner in fields.each("rules") {
        let Some((rule, places)) = rule(&inner, mentions, findings) else { continue };
        if let Some(first) = seen.insert(rule.value.id.clone(), rule.span) {
            let message = format!("the rule `{}` is here twice", rule.value.id);
            findings.twice("spec::duplicate", [first, rule.span], message, "give one another id");
        }
        rules.push((rule, places));
    }
    rules
}

fn rule(
    fields: &Fields<'_>,
    mentions: &mut Mentions,
    findings: &mut Findings,
) -> Option<(Spanned<Rule>, RulePlaces)> {
    let id = fields.text("id")?;
    let mut places = RulePlaces::default();
    let mut examples = Examples::default();
    if let Some(fields) = fields.fields("examples") {
        (examples.matches, places.matches) = these(&fields, "matches", mentions);
        (examples.not, places.not) = these(&fields, "not", mentions);
    }
    let when = fields.fields("when").map(|fields| condition(&fields, mentions, &mut places.tools));
    let then = fields.word("then", VERDICTS)?;
    let (approval_terms, group) = terms::read(fields, findings);
    mentions.principals.extend(group);
    for name in ["within", "escalate"] {
        if then != Verdict::RequireApproval && fields.has(name) {
            let message = format!("`{name}` has no effect here: it is for rules that ask for approval");
            let help = "write `then: require_approval`, or remove it";
            findings.add("spec::contradiction", fields.place_of(name), message, help);
        }
    }
    let rule = Rule {
        id: id.value,
        when: when.unwrap_or_default(),
        then,
        why: fields.words("why"),
        mode: fields.word("mode", MODES).unwrap_or_default(),
        approval_terms,
        examples,
    };
    Some((Spanned { value: rule, span: id.span }, places))
}

/// Examples, and the place of each: that of its tool.
fn these(fields: &Fields<'_>, name: &str, mentions: &mut Mentions) -> (Vec<Example>, Vec<Span>) {
    let example = |fields: Fields<'_>| {
        let (principal, agent) = (mentions.principal(&fields), mentions.agent(&fields));
        let tool = fields.text("tool")?;
        let example = Example { tool: tool.value, input: fields.json("input"), principal, agent };
        Some((example, tool.span))
    };
    fields.each(name).filter_map(example).unzip()
}

/// Recursion is bounded by the depth of a document.
fn condition(fields: &Fields<'_>, mentions: &mut Mentions, tools: &mut Vec<Spanned<String>>) -> Condition {
    let tool = fields.text("tool");
    tools.extend(tool.clone());
    let group = fields.text("group").map(|group| {
        let value = Principal::Group(group.value.clone());
        mentions.principals.push(Spanned { value, span: group.span });
        group.value
    });
    let input =
        fields.entries("input").iter().filter_map(|entry| Some((entry.key.value.clone(), test(entry)?)));
    Condition {
        tool: tool.map(|tool| tool.value),
        source: fields.words("source"),
        effect: fields.word("effect", EFFECTS),
        risk_at_least: fields.word("risk_at_least", RISKS),
        principal: mentions.principal(fields),
        group,
        agent: mentions.agent(fields),
        input: input.collect(),
        all: fields.each("all").map(|fields| condition(&fields, mentions, tools)).collect(),
        any: fields.each("any").map(|fields| condition(&fields, mentions, tools)).collect(),
        not: fields.fields("not").map(|fields| Box::new(condition(&fields, mentions, tools))),
    }
}

impl Mentions {
    fn principal(&mut self, fields: &Fields<'_>) -> Option<Principal> {
        let principal: Spanned<Principal> = fields.parsed("principal")?;
        self.principals.push(principal.clone());
        Some(principal.value)
    }

    fn agent(&mut self, fields: &Fields<'_>) -> Option<String> {
        let agent = fields.text("agent")?;
        self.agents.push(agent.clone());
        Some(agent.value)
    }
}

fn test(entry: &Entry) -> Option<Test> {
    let Some(fields) = Fields::of(&entry.value, &TEST) else {
        return as_json(&entry.value).map(Test::Equals);
    };
    if let Some(pattern) = fields.words("matches") {
        return Some(Test::Matches(pattern));
    }
    if let Some(Value::List(items)) = fields.get("one_of").map(|node| &node.value) {
        return Some(Test::OneOf(items.iter().filter_map(as_json).collect()));
    }
    fields.json("above").map(Test::Above).or_else(|| fields.json("below").map(Test::Below))
}

pub(super) fn budgets(fields: &Fields<'_>) -> BTreeMap<Scope, Spanned<Budget>> {
    let Some(outer) = fields.fields("budgets") else { return BTreeMap::new() };
    let budget = |(name, scope): &(&str, Scope)| {
        let fields = outer.fields(name)?;
        let usd = fields.usd("usd");
        let span = usd.as_ref().map_or_else(|| outer.place_of(name), |usd| usd.span);
        let value = Budget {
            usd: usd.map(|usd| usd.value),
            tokens: fields.count("tokens"),
            model_calls: fields.count("model_calls"),
            wall_clock_ms: fields.millis("wall_clock"),
        };
        Some((*scope, Spanned { value, span }))
    };
    Scope::WORDS.iter().filter_map(budget).collect()
}

pub(super) fn hooks(fields: &Fields<'_>, mentions: &mut Mentions) -> Hooks {
    let Some(fields) = fields.fields("hooks") else { return Hooks::default() };
    let pre_append = fields.each("pre_append").filter_map(|fields| {
        mentions.refused_kinds.extend(fields.texts("kinds"));
        mentions.programs.extend(fields.text("run"));
        hook(&fields, mentions)
    });
    Hooks {
        pre_append: pre_append.collect(),
        post_append: fields.each("post_append").filter_map(|fields| hook(&fields, mentions)).collect(),
    }
}

fn hook(fields: &Fields<'_>, mentions: &mut Mentions) -> Option<Hook> {
    let script = fields.text("script");
    mentions.scripts.extend(script.clone());
    let run = fields.words("run").map(|run| HookAction::Run(words_of(&run)));
    let action = run.or_else(|| script.map(|script| HookAction::Script(script.value)))?;
    let kinds = fields.texts("kinds").into_iter().map(|kind| kind.value).collect();
    Some(Hook { action, kinds, timeout_ms: fields.millis("timeout") })
}

/// A program and its arguments.
pub(super) fn words_of(run: &str) -> Vec<String> {
    run.split_whitespace().map(str::to_owned).collect()
}

pub(super) fn routing(fields: &Fields<'_>, mentions: &mut Mentions) -> Routing {
    let Some(fields) = fields.fields("routing") else { return Routing::default() };
    let mut principals = |name: &str| {
        let read = |text: Spanned<String>| Some(Spanned { value: text.value.parse().ok()?, span: text.span });
        let all: Vec<Spanned<Principal>> = fields.texts(name).into_iter().filter_map(read).collect();
        mentions.principals.extend(all.iter().cloned());
        all.into_iter().map(|principal| principal.value).collect()
    };
    Routing {
        default: fields.word("default", LANES).unwrap_or_default(),
        canary_pct: fields.count("canary_pct"),
        allow: principals("allow"),
        deny: principals("deny"),
        hold: fields.fields("hold").map(|fields| {
            let usual = Hold::default();
            Hold {
                delivered_pp: fields.count("delivered_pp").unwrap_or(usual.delivered_pp),
                cost_pct: fields.count("cost_pct").unwrap_or(usual.cost_pct),
                first_token_pct: fields.count("first_token_pct").unwrap_or(usual.first_token_pct),
            }
        }),
        rollback: fields.fields("rollback").map(|fields| {
            let usual = Rollback::default();
            Rollback {
                delivered_pp: fields.count("delivered_pp").unwrap_or(usual.delivered_pp),
                within_ms: fields.millis("within").unwrap_or(usual.within_ms),
            }
        }),
    }
}
