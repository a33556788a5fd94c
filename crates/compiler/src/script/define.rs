//! `export default defineTool({ name, description, parameters, execute })`, read from its text.

use oxc::ast::ast::{
    Argument, CallExpression, ExportDefaultDeclarationKind, Expression, ImportDeclarationSpecifier,
    ModuleExportName, ObjectExpression, ObjectProperty, ObjectPropertyKind, Program, Statement,
};
use oxc::span::{GetSpan, Span};
use serde_json::{Map, Value, json};
use weir_types::Json;

use super::{RUNTIME, literal};

/// What a tool says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Defined {
    /// The name the model sees.
    pub(crate) name: String,
    /// What it does.
    pub(crate) description: String,
    /// JSON Schema of its arguments.
    pub(crate) parameters: Json,
}

/// Something wrong with a definition: its code, place, message and help.
pub(crate) struct Mistake {
    pub(crate) code: &'static str,
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) help: String,
    pub(crate) is_error: bool,
}

const EXAMPLE: &str = "write `export default defineTool({ name, description, parameters, execute })`";
const FIELDS: [&str; 4] = ["name", "description", "parameters", "execute"];
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// The definition in a module. All mistakes are told, so that one run shows them.
pub(crate) fn defined(stem: &str, program: &Program<'_>) -> (Option<Defined>, Vec<Mistake>) {
    let mut reader = Reader { mistakes: Vec::new(), meant: Vec::new() };
    let found = reader.call(program).and_then(|call| reader.definition(stem, call));
    (found, reader.mistakes)
}

struct Reader {
    mistakes: Vec<Mistake>,
    /// Fields that an unknown one was probably meant to be: told once is enough.
    meant: Vec<&'static str>,
}

impl Reader {
    fn refuse(
        &mut self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let (message, help) = (message.into(), help.into());
        self.mistakes.push(Mistake { code, span, message, help, is_error: true });
    }

    /// The call of `defineTool` that is exported.
    fn call<'p, 'a>(&mut self, program: &'p Program<'a>) -> Option<&'p CallExpression<'a>> {
        let exported = program.body.iter().find_map(|statement| match statement {
            Statement::ExportDefaultDeclaration(exported) => Some(exported),
            _ => None,
        });
        let Some(exported) = exported else {
            let start = Span::new(0, 0);
            self.refuse("build::script-export", start, "the script exports no tool", EXAMPLE);
            return None;
        };
        let call = match &exported.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(_)
            | ExportDefaultDeclarationKind::ClassDeclaration(_)
            | ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => None,
            other => other.as_expression().and_then(|expression| match expression.get_inner_expression() {
                Expression::CallExpression(call) => Some(&**call),
                _ => None,
            }),
        };
        let call = call.filter(|call| matches!(callee(call), Some(name) if imported_as(program, name)));
        if call.is_none() {
            let message = "what the script exports is not a call of `defineTool`";
            let help = format!("import it from `weir`, then {EXAMPLE}");
            self.refuse("build::script-export", exported.declaration.span(), message, help);
        }
        call
    }

    fn definition(&mut self, stem: &str, call: &CallExpression<'_>) -> Option<Defined> {
        let argument =
            call.arguments.first().filter(|_| call.arguments.len() == 1).and_then(Argument::as_expression);
        let object = argument.and_then(|argument| match argument.get_inner_expression() {
            Expression::ObjectExpression(object) => Some(&**object),
            _ => None,
        });
        let Some(object) = object else {
            let message = "`defineTool` takes one object, written out here";
            self.refuse("build::script-export", call.span, message, EXAMPLE);
            return None;
        };
        self.check_fields(object);
        let description = self.text(object, "description", "description: 'Get the weather of a city'");
        let name = match field(object, "name") {
            Some(_) => self.text(object, "name", "").and_then(|name| self.name(object, stem, name)),
            None => Some(stem.to_owned()),
        };
        let parameters = match field(object, "parameters") {
            Some(property) => self.parameters(property),
            None => Some(json!({"type": "object", "properties": {}, "additionalProperties": false})),
        };
        let executes = self.executes(object);
        let (name, description, parameters) = (name?, description?, parameters?);
        executes.then(|| Defined { name, description, parameters: Json::of(&parameters) })
    }

    /// Unknown fields, and ones that are not known without running the script.
    fn check_fields(&mut self, object: &ObjectExpression<'_>) {
        for property in &object.properties {
            let name = match property {
                ObjectPropertyKind::ObjectProperty(property) if !property.computed => {
                    property.key.static_name()
                }
                _ => None,
            };
            match name {
                Some(name) if FIELDS.contains(&name.as_ref()) => {}
                Some(name) => {
                    let message = format!("a tool has no field `{name}`");
                    let meant = FIELDS.iter().find(|known| strsim::jaro_winkler(known, &name) > 0.8);
                    self.meant.extend(meant);
                    let help = match meant {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => format!("its fields are: {}", FIELDS.join(", ")),
                    };
                    self.refuse("build::script-field", property.span(), message, help);
                }
                None => {
                    let message = "the fields of a tool are written out one by one";
                    self.refuse("build::script-field", property.span(), message, EXAMPLE);
                }
            }
        }
    }

    /// A field that is text.
    fn text(&mut self, object: &ObjectExpression<'_>, name: &str, example: &str) -> Option<String> {
        let Some(property) = field(object, name) else {
            if !self.meant.contains(&name) {
                let help = format!("add it, for example `{example}`");
                self.refuse("build::script-field", object.span, format!("the tool needs `{name}`"), help);
            }
            return None;
        };
        match literal::text(&property.value) {
            Ok(text) if !text.trim().is_empty() => Some(text),
            Ok(_) => {
                let message = format!("`{name}` is empty");
                self.refuse("build::script-field", property.value.span(), message, "say what it is");
                None
            }
            Err(span) => {
                let message = format!("`{name}` has to be text that is known without running the script");
                self.refuse("build::script-field", span, message, "write it in quotes, without variables");
                None
            }
        }
    }

    fn name(&mut self, object: &ObjectExpression<'_>, stem: &str, name: String) -> Option<String> {
        let span = field(object, "name").map_or(object.span, |property| property.value.span());
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.len() > 64 || !name.bytes().all(fits) {
            let help = "use 1 to 64 of the letters a-z and A-Z, digits, `-` and `_`";
            self.refuse("build::script-name", span, format!("`{name}` cannot be a tool's name"), help);
            return None;
        }
        if name.replace('-', "_") != stem.replace('-', "_") {
            self.mistakes.push(Mistake {
                code: "build::script-name",
                span,
                message: format!("the model sees `{name}`, but the file is called `{stem}`"),
                help: "give both the same name: who reads a journal looks for the file".to_owned(),
                is_error: false,
            });
        }
        Some(name)
    }

    /// A JSON Schema of the arguments, from one or from the short form.
    fn parameters(&mut self, property: &ObjectProperty<'_>) -> Option<Value> {
        let span = property.value.span();
        let fields = match property.value.get_inner_expression() {
            Expression::ObjectExpression(object) => literal::object(object),
            other => Err(other.span()),
        };
        let fields = match fields {
            Ok(fields) => fields,
            Err(span) => {
                let message = "`parameters` have to be known without running the script";
                let help = "write them out, like `{ city: { type: 'string', description: 'City name' } }`";
                self.refuse("build::script-parameters", span, message, help);
                return None;
            }
        };
        // In the short form every field is a parameter; a schema's `type` is text.
        let is_schema =
            matches!(fields.get("type"), Some(Value::String(_))) || fields.contains_key("$schema");
        let schema = if is_schema { Ok(Value::Object(fields)) } else { short_form(fields) };
        match schema.and_then(|schema| check_schema(&schema).map(|()| schema)) {
            Ok(schema) => Some(schema),
            Err(why) => {
                let help = "write a JSON Schema, or `{ city: { type: 'string', description: 'City name' } }`";
                self.refuse("build::script-parameters", span, why, help);
                None
            }
        }
    }

    /// Whether there is something to run.
    fn executes(&mut self, object: &ObjectExpression<'_>) -> bool {
        let Some(property) = field(object, "execute") else {
            if !self.meant.contains(&"execute") {
                let help = "add it, for example `execute: async ({ city }) => { … }`";
                self.refuse("build::script-execute", object.span, "the tool needs `execute`", help);
            }
            return false;
        };
        let value = property.value.get_inner_expression();
        let is_function = matches!(
            value,
            Expression::ArrowFunctionExpression(_)
                | Expression::FunctionExpression(_)
                | Expression::Identifier(_)
                | Expression::CallExpression(_)
                | Expression::StaticMemberExpression(_)
        );
        if !is_function {
            let help = "write `execute: async ({ city }) => { … }`";
            self.refuse("build::script-execute", value.span(), "`execute` has to be a function", help);
        }
        is_function
    }
}

fn callee<'c>(call: &'c CallExpression<'_>) -> Option<&'c str> {
    match call.callee.get_inner_expression() {
        Expression::Identifier(name) => Some(name.name.as_str()),
        _ => None,
    }
}

/// Whether a name is what the module calls `defineTool` of the runtime.
fn imported_as(program: &Program<'_>, local: &str) -> bool {
    program.body.iter().any(|statement| {
        let Statement::ImportDeclaration(import) = statement else { return false };
        RUNTIME.contains(&import.source.value.as_str())
            && import.specifiers.iter().flatten().any(|specifier| match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(specifier) => {
                    specifier.local.name == local && exported_name(&specifier.imported) == "defineTool"
                }
                _ => false,
            })
    })
}

fn exported_name<'n>(name: &'n ModuleExportName<'_>) -> &'n str {
    match name {
        ModuleExportName::IdentifierName(name) => name.name.as_str(),
        ModuleExportName::IdentifierReference(name) => name.name.as_str(),
        ModuleExportName::StringLiteral(name) => name.value.as_str(),
    }
}

fn field<'o, 'a>(object: &'o ObjectExpression<'a>, name: &str) -> Option<&'o ObjectProperty<'a>> {
    object.properties.iter().find_map(|property| match property {
        ObjectPropertyKind::ObjectProperty(property)
            if !property.computed && property.key.static_name().is_some_and(|key| key == name) =>
        {
            Some(&**property)
        }
        _ => None,
    })
}

/// `{ city: { type: 'string' }, days: { type: 'integer', optional: true } }` as a schema.
fn short_form(fields: Map<String, Value>) -> Result<Value, String> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, parameter) in fields {
        let Value::Object(mut parameter) = parameter else {
            return Err(format!("the parameter `{name}` is described by an object"));
        };
        let optional = match parameter.remove("optional") {
            None => parameter.contains_key("default"),
            Some(Value::Bool(optional)) => optional,
            Some(_) => return Err(format!("`optional` of the parameter `{name}` is `true` or `false`")),
        };
        if !optional {
            required.push(Value::from(name.clone()));
        }
        properties.insert(name, Value::Object(parameter));
    }
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        schema["required"] = Value::Array(required);
    }
    Ok(schema)
}

/// The slips that a provider would answer with an error which nobody understands.
fn check_schema(schema: &Value) -> Result<(), String> {
    if schema.get("type") != Some(&Value::from("object")) {
        return Err("the arguments of a tool are an object: `type: 'object'`".to_owned());
    }
    check_types("parameters", schema)?;
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let known =
            name.as_str().is_some_and(|name| properties.is_some_and(|known| known.contains_key(name)));
        if !known {
            return Err(format!("`required` names {name}, which is not among the `properties`"));
        }
    }
    Ok(())
}

fn check_types(name: &str, schema: &Value) -> Result<(), String> {
    let types = match schema.get("type") {
        None => Vec::new(),
        Some(Value::Array(several)) => several.iter().collect(),
        Some(one) => vec![one],
    };
    if let Some(odd) = types.iter().find(|one| !one.as_str().is_some_and(|one| TYPES.contains(&one))) {
        return Err(format!("`{name}` has the type {odd}; types are: {}", TYPES.join(", ")));
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check_types(name, property)?;
    }
    match schema.get("items") {
        Some(items) => check_types(name, items),
        None => Ok(()),
    }
}
