//! The modules of a bundle, found as the compiler finds them, and nothing beside them.

use std::sync::Arc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Exception, Module, Result};

use super::Bundle;

/// The names under which a script finds `defineTool`.
const RUNTIME: [&str; 2] = ["weir", "@lush-agents/runtime"];

/// What is found there.
const RUNTIME_CODE: &str = "export const defineTool = (tool) => tool;\nexport default { defineTool };\n";

/// The modules of a bundle.
#[derive(Clone)]
pub(super) struct Modules(pub(super) Arc<Bundle>);

impl Resolver for Modules {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        resolved(&self.0, base, name).ok_or_else(|| {
            let name = crate::bound::head(name, 200);
            Exception::throw_type(ctx, &format!("`{name}` cannot be imported: it is not part of the tool"))
        })
    }
}

impl Loader for Modules {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        let code = match self.0.modules.get(name) {
            Some(module) => module.code.as_str(),
            None if name == RUNTIME[0] => RUNTIME_CODE,
            None => return Err(Error::new_loading(name)),
        };
        Module::declare(ctx.clone(), name, code)
    }
}

/// The module that a name stands for. The compiler has put paths in place of names already; a name that is relative is
/// found by the same rules.
fn resolved(bundle: &Bundle, base: &str, name: &str) -> Option<String> {
    if RUNTIME.contains(&name) {
        return Some(RUNTIME[0].to_owned());
    }
    let path =
        if name.starts_with("./") || name.starts_with("../") { join(base, name)? } else { name.to_owned() };
    let stem = path.strip_suffix(".js").unwrap_or(&path);
    let candidates = [path.clone(), format!("{stem}.ts"), format!("{path}.js"), format!("{path}/index.ts")];
    candidates.into_iter().find(|candidate| bundle.modules.contains_key(candidate))
}

/// A path relative to a module, unless it leaves the project.
fn join(from: &str, specifier: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in specifier.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script;

    #[test]
    fn modules_are_found_as_the_compiler_finds_them() {
        let paths = ["tools/a.ts", "tools/lib/index.ts", "tools/b.js", "c.ts", "weir.ts"];
        let module = script::Module { code: String::new(), map: None };
        let modules = paths.iter().map(|path| ((*path).to_owned(), module.clone())).collect();
        let bundle = Bundle { entry: paths[0].to_owned(), modules };
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(resolved(&bundle, "tools/a.ts", name).as_deref(), expected, "{name}");
        };
        check("weir", Some("weir"));
        check("@lush-agents/runtime", Some("weir"));
        check("tools/b.js", Some("tools/b.js"));
        check("./b", Some("tools/b.js"));
        check("./b.js", Some("tools/b.js"));
        check("./lib", Some("tools/lib/index.ts"));
        check("../c", Some("c.ts"));
        check("../c.js", Some("c.ts"));
        check("../c.ts", Some("c.ts"));
        check("../weir", Some("weir.ts"));
        for outside in [
            "../../c",
            "./missing",
            "/etc/passwd",
            "file:///c.ts",
            "https://a.example/c.ts",
            "data:text/javascript,1",
            "fs",
            "node:fs",
            "",
        ] {
            check(outside, None);
        }
    }
}
