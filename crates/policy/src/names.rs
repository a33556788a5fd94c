//! The entities that policies speak of, made without any text in between.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::str::FromStr as _;
use std::sync::LazyLock;

use cedar_policy::{Entities, Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression};
use serde_json::Value;
use weir_types::{Effect, Risk, Who};

use crate::principal::Principal;

/// The kinds of entities, read once.
pub(crate) struct Kinds {
    user: EntityTypeName,
    group: EntityTypeName,
    account: EntityTypeName,
    action: EntityTypeName,
    effect: EntityTypeName,
    risk: EntityTypeName,
    pub(crate) agent: EntityTypeName,
    pub(crate) routine: EntityTypeName,
    pub(crate) tool: EntityTypeName,
    pub(crate) stream: EntityTypeName,
    pub(crate) blob: EntityTypeName,
    pub(crate) knowledge: EntityTypeName,
    arguments: EntityTypeName,
    numbers: EntityTypeName,
}

static KINDS: LazyLock<Option<Kinds>> = LazyLock::new(|| {
    let kind = |name: &str| EntityTypeName::from_str(name).ok();
    Some(Kinds {
        user: kind("User")?,
        group: kind("Group")?,
        account: kind("ServiceAccount")?,
        action: kind("Action")?,
        effect: kind("Effect")?,
        risk: kind("Risk")?,
        agent: kind("Agent")?,
        routine: kind("Loop")?,
        tool: kind("Tool")?,
        stream: kind("Stream")?,
        blob: kind("Blob")?,
        knowledge: kind("Knowledge")?,
        arguments: kind("Arguments")?,
        numbers: kind("Numbers")?,
    })
});

impl Kinds {
    /// All of them. INVARIANT: their names are constants, and names of types.
    pub(crate) fn get() -> Option<&'static Self> {
        KINDS.as_ref()
    }

    pub(crate) fn who(&self, principal: Principal<'_>) -> EntityUid {
        match principal {
            Principal::User(name) => uid(&self.user, name),
            Principal::Group(name) => uid(&self.group, name),
            Principal::ServiceAccount(name) => uid(&self.account, name),
        }
    }

    pub(crate) fn action(&self, name: &str) -> EntityUid {
        uid(&self.action, name)
    }

    pub(crate) fn effect(&self, effect: Effect) -> EntityUid {
        uid(&self.effect, effect.as_str())
    }

    pub(crate) fn risk(&self, risk: Risk) -> EntityUid {
        uid(&self.risk, risk.as_str())
    }

    pub(crate) fn is_group(&self, uid: &EntityUid) -> bool {
        *uid.type_name() == self.group
    }

    pub(crate) fn arguments(&self) -> [EntityUid; 2] {
        [uid(&self.arguments, "call"), uid(&self.numbers, "call")]
    }
}

pub(crate) fn uid(kind: &EntityTypeName, name: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(name))
}

/// Everyone who is in a group, and the groups.
pub(crate) fn people(
    kinds: &Kinds,
    groups: &BTreeMap<String, BTreeSet<String>>,
    admins: &[String],
) -> Option<Entities> {
    let mut parents: BTreeMap<&str, HashSet<EntityUid>> = BTreeMap::new();
    for (group, members) in groups {
        let group = kinds.who(Principal::Group(group));
        members.iter().for_each(|member| {
            parents.entry(member).or_default().insert(group.clone());
        });
    }
    for admin in admins {
        parents.entry(admin).or_default().insert(kinds.who(Principal::Group("admin")));
    }
    let entities = parents.into_iter().filter_map(|(member, mut groups)| {
        let member = kinds.who(Principal::parse(member)?);
        // A group is in itself, and needs nobody to say so.
        groups.remove(&member);
        Some(Entity::new_no_attrs(member, groups))
    });
    Entities::from_entities(entities, None).ok()
}

/// The same, with the groups that someone came with: what those groups are in counts, too. Nothing, if one is no group.
pub(crate) fn with_groups(kinds: &Kinds, people: &Entities, who: Who<'_>) -> Option<Entities> {
    let member = kinds.who(Principal::parse(who.principal)?);
    let mut groups: HashSet<EntityUid> = people.ancestors(&member).into_iter().flatten().cloned().collect();
    for group in who.groups {
        let group @ Principal::Group(_) = Principal::parse(group)? else { return None };
        let group = kinds.who(group);
        groups.extend(people.ancestors(&group).into_iter().flatten().cloned());
        groups.insert(group);
    }
    groups.remove(&member);
    people.clone().upsert_entities([Entity::new_no_attrs(member, groups)], None).ok()
}

/// The scalar arguments of a call, as policies written by hand read them.
pub(crate) fn arguments(kinds: &Kinds, input: &Value) -> Option<[Entity; 2]> {
    let (mut texts, mut numbers) = (HashMap::new(), HashMap::new());
    flatten(input, String::new(), &mut |path, value| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if let Some(number) = value.as_i64() {
            numbers.insert(path.clone(), RestrictedExpression::new_long(number));
        }
        texts.insert(path, RestrictedExpression::new_string(text));
    });
    let [as_text, as_numbers] = kinds.arguments();
    let tagged = |uid, tags: HashMap<_, _>| Entity::new_with_tags(uid, [], [], tags).ok();
    Some([tagged(as_text, texts)?, tagged(as_numbers, numbers)?])
}

/// Every scalar with its path. Keys with dots have none: they could pass for something else.
fn flatten(value: &Value, path: String, visit: &mut impl FnMut(String, &Value)) {
    let below = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
    match value {
        Value::Object(fields) => {
            let named = fields.iter().filter(|(key, _)| !key.is_empty() && !key.contains('.'));
            named.for_each(|(key, value)| flatten(value, below(key), visit));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| flatten(value, below(&index.to_string()), visit));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => visit(path, value),
    }
}
