//! Compares what a component imports and exports with the contract, function by function.

use super::signature::{self, Pair};
use crate::check::wasi_way_out;
use crate::{Error, ErrorKind, Result, wasi};
use serde::Serialize;
use std::fmt;
use wit_parser::{
    Function, Interface, InterfaceId, Package, PackageId, PackageName, Resolve, SourceMap, World,
    WorldId, WorldItem, WorldKey,
};

/// The package of the contract.
const NAMESPACE: &str = "howdah";
const NAME: &str = "operator";
/// What this host offers and calls at most, and what every operator must export.
const LARGEST_WORLD: &str = "timed-operator";
const SMALLEST_WORLD: &str = "stateful-operator";

/// The contract, as this host was built with it: the files of `wit/`, name and text.
pub const CONTRACT_SOURCES: &[(&str, &str)] = &[
    ("clock.wit", include_str!("../../../../wit/clock.wit")),
    ("logging.wit", include_str!("../../../../wit/logging.wit")),
    ("metrics.wit", include_str!("../../../../wit/metrics.wit")),
    ("operator.wit", include_str!("../../../../wit/operator.wit")),
    ("state.wit", include_str!("../../../../wit/state.wit")),
    ("timers.wit", include_str!("../../../../wit/timers.wit")),
    ("types.wit", include_str!("../../../../wit/types.wit")),
];

/// How a component differs from the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// It imports something that is not of the contract: WASI, or another package.
    Foreign,
    /// It was built for another version of the contract.
    Version,
    /// It lacks something that the host calls.
    Missing,
    /// It has something that the host does not have.
    Extra,
    /// It has it with another signature, or made of other types.
    Changed,
}

/// One way in which a component differs from the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// In which way.
    pub kind: DifferenceKind,
    /// Whether the component cannot run because of it.
    pub fatal: bool,
    /// What is different: `function process of howdah:operator/operator`.
    pub what: String,
    /// What the component has, in WIT.
    pub component: Option<String>,
    /// What the host has, in WIT.
    pub host: Option<String>,
    /// What to do about it.
    pub way_out: Option<String>,
    /// The interface of WASI that it imports and that this host has, if that is all.
    pub wasi: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        for (whose, wit) in [("component", &self.component), ("host", &self.host)] {
            if let Some(wit) = wit {
                write!(f, "\n    {whose:9}  {wit}")?;
            }
        }
        match &self.way_out {
            Some(way_out) => write!(f, "\n    {way_out}"),
            None => Ok(()),
        }
    }
}

/// Which side of the component an interface is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Import,
    Export,
}

/// The contract, parsed.
struct Contract {
    resolve: Resolve,
    package: PackageId,
}

impl Contract {
    fn parse() -> Result<Self> {
        let host = |error: String| {
            Error::new(
                ErrorKind::Host,
                format!("the contract of this host cannot be read: {error}"),
            )
        };
        let mut sources = SourceMap::default();
        for (name, text) in CONTRACT_SOURCES {
            sources.push_str(name, *text);
        }
        let parsed = sources.parse().map_err(|(_, error)| host(error.to_string()))?;
        let mut resolve = Resolve::default();
        let package = resolve.push_group(parsed).map_err(|error| host(error.to_string()))?;
        Ok(Self { resolve, package })
    }

    fn package(&self) -> Option<&Package> {
        self.resolve.packages.get(self.package)
    }

    fn version(&self) -> String {
        let version = self.package().and_then(|package| package.name.version.as_ref());
        version.map(ToString::to_string).unwrap_or_default()
    }

    /// Before 1.0 the minor version is the line, from then on the major one. A host runs what was
    /// built for its line.
    fn line(package: &PackageName) -> Option<(u64, u64)> {
        let version = package.version.as_ref()?;
        Some((version.major, if version.major == 0 { version.minor } else { 0 }))
    }

    fn world(&self, name: &str) -> Option<&World> {
        self.resolve.worlds.get(*self.package()?.worlds.get(name)?)
    }

    /// An interface of one side of the largest world, by its name.
    fn interface(&self, side: Side, name: &str) -> Option<&Interface> {
        let id = *self.package()?.interfaces.get(name)?;
        let world = self.world(LARGEST_WORLD)?;
        let items = if side == Side::Import { &world.imports } else { &world.exports };
        items.contains_key(&WorldKey::Interface(id)).then(|| self.resolve.interfaces.get(id))?
    }

    /// The interfaces that an operator must export.
    fn required(&self) -> Vec<String> {
        let world = self.world(SMALLEST_WORLD);
        let exports = world.into_iter().flat_map(|world| world.exports.keys());
        exports
            .filter_map(|key| match key {
                WorldKey::Interface(id) => self.resolve.interfaces.get(*id)?.name.clone(),
                WorldKey::Name(_) => None,
            })
            .collect()
    }
}

/// The version of the contract that this host was built with.
pub(super) fn version() -> Result<String> {
    Ok(Contract::parse()?.version())
}

/// How a component, decoded, differs from the contract. Empty: it links.
pub(super) fn compare(component: &Resolve, world: WorldId) -> Result<Vec<Difference>> {
    let contract = Contract::parse()?;
    let Some(world) = component.worlds.get(world) else { return Ok(Vec::new()) };
    let mut comparison = Comparison {
        component,
        world,
        contract: &contract,
        version: contract.version(),
        pair: Pair::new(component, &contract.resolve),
        differences: Vec::new(),
    };
    for (key, item) in &world.imports {
        comparison.item(Side::Import, key, item);
    }
    for (key, item) in &world.exports {
        comparison.item(Side::Export, key, item);
    }
    comparison.required_exports();
    Ok(comparison.differences)
}

struct Comparison<'a> {
    component: &'a Resolve,
    world: &'a World,
    contract: &'a Contract,
    version: String,
    pair: Pair<'a>,
    differences: Vec<Difference>,
}

impl Comparison<'_> {
    fn add(&mut self, kind: DifferenceKind, what: String, way_out: Option<String>) {
        self.differences.push(Difference {
            kind,
            fatal: true,
            what,
            component: None,
            host: None,
            way_out,
            wasi: None,
        });
    }

    fn item(&mut self, side: Side, key: &WorldKey, item: &WorldItem) {
        let name = self.component.name_world_key(key);
        let WorldItem::Interface { id, .. } = item else {
            if side == Side::Import {
                self.foreign(&name);
            }
            return;
        };
        let Some(interface) = self.component.interfaces.get(*id) else { return };
        let package = interface.package.and_then(|package| self.component.packages.get(package));
        let package = package.map(|package| &package.name);
        let ours = package.filter(|package| package.namespace == NAMESPACE && package.name == NAME);
        let (Some(package), Some(short)) = (ours, &interface.name) else {
            // What it exports beside is its own matter.
            if side == Side::Import {
                self.foreign(&name);
            }
            return;
        };
        let host = self.contract.package().map(|package| &package.name);
        if Contract::line(package) != host.and_then(Contract::line) {
            let stated = package.version.as_ref().map(ToString::to_string).unwrap_or_default();
            let verb = if side == Side::Import { "imports" } else { "exports" };
            let what = format!(
                "{verb} {name}: it was built for {NAMESPACE}:{NAME}@{stated}, and this host has \
                 {NAMESPACE}:{NAME}@{}",
                self.version
            );
            let way_out = format!("build it with the SDK of version {}", self.version);
            self.add(DifferenceKind::Version, what, Some(way_out));
            if side == Side::Export && self.exports_ours(short) {
                self.last_is_harmless();
            }
            return;
        }
        let short = short.clone();
        match self.contract.interface(side, &short) {
            Some(host) => self.interface(side, &short, interface, host),
            None => self.unknown_interface(side, &name),
        }
    }

    fn foreign(&mut self, name: &str) {
        let way_out = if wasi::has(name) {
            wasi_way_out(false, false)
        } else if wasi::is_wasi(name) {
            "of WASI 0.2 this host has cli, clocks, filesystem, io and random, where they are \
             granted: build it without"
                .to_owned()
        } else {
            "the host has the interfaces of howdah:operator alone: remove what needs this one, or \
             compose it into the component (`wac plug`)"
                .to_owned()
        };
        let what = match wasi::has(name) {
            true => {
                format!("imports {name}, which this host gives to those alone that it is granted")
            }
            false => format!("imports {name}, which this host does not have"),
        };
        // Said once: those who import some of WASI mostly import much.
        let is_first = !wasi::has(name) || self.differences.iter().all(|d| d.wasi.is_none());
        self.add(DifferenceKind::Foreign, what, is_first.then_some(way_out));
        if let Some(last) = self.differences.last_mut() {
            last.wasi = wasi::has(name).then(|| name.to_owned());
        }
    }

    fn unknown_interface(&mut self, side: Side, name: &str) {
        let version = self.version.clone();
        match side {
            Side::Import => self.add(
                DifferenceKind::Extra,
                format!("imports {name}, which this host ({version}) does not have"),
                Some("run it with a newer howdah, or build it without".to_owned()),
            ),
            Side::Export => {
                let what = format!("exports {name}, which this host ({version}) does not call");
                self.add(DifferenceKind::Extra, what, None);
                self.last_is_harmless();
            }
        }
    }

    fn last_is_harmless(&mut self) {
        if let Some(last) = self.differences.last_mut() {
            last.fatal = false;
        }
    }

    fn interface(&mut self, side: Side, name: &str, component: &Interface, host: &Interface) {
        let of = format!("of {NAMESPACE}:{NAME}/{name}");
        for (key, function) in &component.functions {
            let shown = signature::name(function).to_owned();
            match host.functions.get(key) {
                Some(wanted) if self.pair.same_function(function, wanted) => {}
                Some(wanted) => self.changed(&shown, &of, function, wanted),
                None => self.extra(side, &shown, &of, function),
            }
        }
        if side == Side::Import {
            // What it does not import it does not need.
            return;
        }
        for (key, wanted) in &host.functions {
            if !component.functions.contains_key(key) {
                let what = format!("lacks function `{}` {of}", signature::name(wanted));
                self.add(DifferenceKind::Missing, what, Some(self.rebuild()));
                self.last_in_wit(None, Some(signature::function(&self.contract.resolve, wanted)));
            }
        }
    }

    fn rebuild(&self) -> String {
        format!("build it with the SDK of {NAMESPACE}:{NAME}@{}", self.version)
    }

    fn last_in_wit(&mut self, component: Option<String>, host: Option<String>) {
        if let Some(last) = self.differences.last_mut() {
            (last.component, last.host) = (component, host);
        }
    }

    fn extra(&mut self, side: Side, name: &str, of: &str, function: &Function) {
        let version = &self.version;
        let (what, way_out) = match side {
            Side::Import => (
                format!(
                    "imports function `{name}` {of}, which this host ({version}) does not have"
                ),
                Some("run it with a newer howdah, or build it without".to_owned()),
            ),
            Side::Export => (
                format!("has a function `{name}` {of}, which this host ({version}) does not call"),
                None,
            ),
        };
        self.add(DifferenceKind::Extra, what, way_out);
        self.last_in_wit(Some(signature::function(self.component, function)), None);
        if side == Side::Export {
            self.last_is_harmless();
        }
    }

    fn changed(&mut self, name: &str, of: &str, component: &Function, host: &Function) {
        let what = format!("has function `{name}` {of} with another signature");
        self.add(DifferenceKind::Changed, what, Some(self.rebuild()));
        let texts = (
            signature::function(self.component, component),
            signature::function(&self.contract.resolve, host),
        );
        self.last_in_wit(Some(texts.0), Some(texts.1));
        for changed in self.pair.changed_types(component, host) {
            let what = format!("has type `{}` {of} made of other parts", changed.name);
            if self.differences.iter().any(|known| known.what == what) {
                continue;
            }
            self.add(DifferenceKind::Changed, what, None);
            self.last_in_wit(Some(changed.component), Some(changed.host));
        }
    }

    /// What every operator exports.
    fn required_exports(&mut self) {
        let exported: Vec<&str> =
            self.world.exports.values().filter_map(|item| self.own(item)).collect();
        let required = self.contract.required();
        let missing: Vec<String> =
            required.into_iter().filter(|name| !exported.contains(&name.as_str())).collect();
        for name in missing {
            let what = format!("does not export {NAMESPACE}:{NAME}/{name}@{}", self.version);
            let way_out = format!(
                "build it for world {NAMESPACE}:{NAME}/{SMALLEST_WORLD}; `howdah new` makes a project \
                 that does"
            );
            self.add(DifferenceKind::Missing, what, Some(way_out));
        }
    }

    /// Whether it exports an interface of this name in our line, too.
    fn exports_ours(&self, name: &str) -> bool {
        let host = self.contract.package().map(|package| &package.name);
        self.world.exports.values().any(|item| {
            let WorldItem::Interface { id, .. } = item else { return false };
            let interface = self.component.interfaces.get(*id);
            let package = interface.and_then(|interface| interface.package);
            let package = package.and_then(|package| self.component.packages.get(package));
            self.own_interface(*id) == Some(name)
                && package.and_then(|package| Contract::line(&package.name))
                    == host.and_then(Contract::line)
        })
    }

    /// The short name of an interface of our package, in any version.
    fn own(&self, item: &WorldItem) -> Option<&str> {
        let WorldItem::Interface { id, .. } = item else { return None };
        self.own_interface(*id)
    }

    fn own_interface(&self, id: InterfaceId) -> Option<&str> {
        let interface = self.component.interfaces.get(id)?;
        let package = &self.component.packages.get(interface.package?)?.name;
        (package.namespace == NAMESPACE && package.name == NAME)
            .then_some(interface.name.as_deref())?
    }
}
