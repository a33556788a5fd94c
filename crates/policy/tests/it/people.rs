//! Roles, approvals, and what is stored.

use weir_policy::{LoopRole, Source, Stored, StoredKind};
use weir_types::{Level, Whose};

use crate::support::{policies, source};

#[test]
fn who_may_talk_to_an_agent() {
    let policies = policies(&source());
    for (who, agent, expected) in [
        ("user:ada", "anyone", true),
        ("user:alan", "writer", true),
        ("user:olga", "anyone", true),
        ("user:grace", "writer", true),
        ("serviceaccount:ci", "writer", true),
        ("user:ci", "writer", false),
        ("user:grace", "other", false),
        ("user:boss", "writer", false),
        ("user:eve", "writer", false),
        ("group:engineers", "writer", true),
        ("user:engineers", "writer", false),
        ("nobody", "writer", false),
        ("", "writer", false),
    ] {
        assert_eq!(policies.admit(who, agent).allowed, expected, "{who} {agent}");
    }
}

#[test]
fn whoever_asked_may_approve_unless_it_takes_four_eyes() {
    let two = policies(&source());
    let four = policies(&Source { four_eyes: true, ..source() });
    for (by, asker, with_two, with_four) in [
        ("user:ada", "user:grace", true, true),
        ("user:ada", "user:ada", true, false),
        ("user:alan", "user:alan", true, false),
        ("user:boss", "user:grace", true, true),
        ("user:boss", "user:boss", true, false),
        ("user:grace", "user:grace", true, false),
        ("user:eve", "user:eve", true, false),
        ("user:grace", "user:eve", false, false),
        ("serviceaccount:ci", "serviceaccount:ci", false, false),
        ("someone", "someone", false, false),
    ] {
        let may = |policies: &weir_policy::Policies| policies.may_approve(by, asker, "writer").allowed;
        assert_eq!((may(&two), may(&four)), (with_two, with_four), "{by} for {asker}");
    }
    assert!(!two.may_approve("user:boss", "user:grace", "other").allowed);
    let refused = four.may_approve("user:ada", "user:ada", "writer");
    assert_eq!(refused.by.as_deref(), Some("builtin:four-eyes"));
}

#[test]
fn loops_are_seen_by_whoever_triggers_them() {
    let acl = |who: &str, role| (who.to_owned(), role);
    let loops = [(
        "morning".to_owned(),
        vec![acl("group:engineers", LoopRole::Read), acl("user:boss", LoopRole::Execute)],
    )];
    let policies = policies(&Source { loops: loops.into(), ..source() });
    for (who, read, execute) in [
        ("user:grace", true, false),
        ("user:boss", true, true),
        ("user:ada", true, true),
        ("user:eve", false, false),
        ("user:rita", false, false),
    ] {
        let may = |role| policies.may_use_loop(who, role, "morning").allowed;
        assert_eq!((may(LoopRole::Read), may(LoopRole::Execute)), (read, execute), "{who}");
        assert_eq!(policies.may_use_loop(who, LoopRole::Read, "evening").allowed, who == "user:ada");
    }
}

#[test]
fn what_is_stored_is_for_whom_it_belongs_to() {
    let policies = policies(&source());
    let all = [StoredKind::Stream, StoredKind::Blob, StoredKind::Knowledge];
    for kind in all {
        let may =
            |who: &str, level, owner| policies.may(who, level, &Stored { kind, name: "x", owner }).allowed;
        let knows = kind == StoredKind::Knowledge;
        for (who, owner, read, write) in [
            ("user:ada", Whose::Someone("user:grace"), true, true),
            ("user:ada", Whose::Nobody, true, true),
            ("user:grace", Whose::Someone("user:grace"), true, true),
            ("user:grace", Whose::Someone("user:eve"), false, false),
            ("user:grace", Whose::Nobody, knows, false),
            ("user:rita", Whose::Someone("user:rita"), true, false),
            ("user:rita", Whose::Someone("user:grace"), false, false),
            ("user:rita", Whose::Nobody, knows, false),
            ("user:eve", Whose::Someone("user:eve"), false, false),
            // What is nobody's in particular, as far as is known, is not everybody's.
            ("user:ada", Whose::Unsaid, true, true),
            ("user:grace", Whose::Unsaid, false, false),
            ("user:rita", Whose::Unsaid, false, false),
        ] {
            let found = (may(who, Level::Read, owner), may(who, Level::Write, owner));
            assert_eq!(found, (read, write), "{who} {kind:?} of {owner:?}");
        }
    }
}

#[test]
fn groups_are_known_by_name() {
    let policies = policies(&source());
    assert_eq!(policies.groups_of("user:grace"), ["group:engineers", "group:user"]);
    assert_eq!(policies.groups_of("user:ada"), ["group:admin"]);
    assert_eq!(policies.groups_of("user:eve"), Vec::<String>::new());
    assert_eq!(policies.groups_of("?"), Vec::<String>::new());
}
