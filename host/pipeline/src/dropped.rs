//! States of a checkpoint that a pipeline no longer has, and may do without.

use crate::checkpoint::{InputShape, OperatorShape, Shape};
use crate::config::enumerate;

/// What a shape has and another one has not: operators, and `operator.state` of those that both have.
pub(crate) fn missing(stored: &Shape, wanted: &Shape) -> Vec<String> {
    let mut missing = Vec::new();
    for operator in &stored.operators {
        match find(wanted, &operator.name) {
            None => missing.push(operator.name.clone()),
            Some(other) => {
                let gone = operator.states.iter().filter(|state| !has_state(other, &state.state));
                missing.extend(gone.map(|state| format!("{}.{}", operator.name, state.state)));
            }
        }
    }
    missing
}

/// A checkpoint's shape without the operators and states of these names that the pipeline lacks, and
/// without what took rows of those operators alone, or gave rows to them alone. A name is that of an
/// operator, or `operator.state`, or that of a state where no other that is missing is called so.
pub(crate) fn without(stored: &Shape, wanted: &Shape, names: &[String]) -> Shape {
    let meant: Vec<String> = meant(&missing(stored, wanted), names);
    let named = |name: &str| meant.iter().any(|allowed| allowed == name);
    let gone = |name: &str| find(wanted, name).is_none() && named(name);
    // Of an operator, or of one of its outputs.
    let of_gone = |from: &str| gone(from) || from.split_once('.').is_some_and(|(of, _)| gone(of));
    let mut left = stored.clone();
    left.operators.retain(|operator| !gone(&operator.name));
    for operator in &mut left.operators {
        let Some(other) = find(wanted, &operator.name) else { continue };
        let whole = |state: &str| format!("{}.{state}", operator.name);
        operator.states.retain(|state| {
            let name = &state.state;
            has_state(other, name) || !named(&whole(name))
        });
        operator.inputs = inputs(&operator.inputs, &other.inputs, of_gone);
    }
    left.sinks.retain_mut(|sink| {
        let stored = origins(sink.from.as_deref());
        if !stored.iter().any(|origin| of_gone(origin)) {
            return true;
        }
        let other = wanted.sinks.iter().find(|other| other.name == sink.name);
        let new = other.map(|other| origins(other.from.as_deref())).unwrap_or_default();
        let new = new.into_iter().filter(|origin| !stored.contains(origin));
        let mut left: Vec<&str> = stored.iter().copied().filter(|it| !of_gone(it)).collect();
        left.extend(new);
        left.sort_unstable();
        sink.from = (!left.is_empty()).then(|| enumerate(&left, "and"));
        sink.from.is_some()
    });
    left.sources.retain(|source| {
        let takes = |operator: &&OperatorShape| {
            operator.inputs.iter().any(|input| input.from == source.name)
        };
        let mut takers = stored.operators.iter().filter(takes).peekable();
        let by_gone = takers.peek().is_some() && takers.all(|operator| gone(&operator.name));
        let known = wanted.sources.iter().any(|other| other.name == source.name);
        known || !by_gone
    });
    left
}

/// Which of those that are missing are named.
fn meant(missing: &[String], names: &[String]) -> Vec<String> {
    let meant = |name: &String| {
        if missing.contains(name) {
            return Some(name.clone());
        }
        let is_state = |it: &&String| it.split_once('.').is_some_and(|(_, state)| state == *name);
        let mut states = missing.iter().filter(is_state);
        let first = states.next()?;
        states.next().is_none().then(|| first.clone())
    };
    names.iter().filter_map(meant).collect()
}

/// The origins of inputs without those that are gone. What an input takes in place of them is as it was
/// wanted; all others must be as they were.
fn inputs(
    stored: &[InputShape],
    wanted: &[InputShape],
    of_gone: impl Fn(&str) -> bool,
) -> Vec<InputShape> {
    let of = |name: &Option<String>, input: &InputShape| name.is_none() || input.name == *name;
    let mut left = Vec::new();
    for group in stored.chunk_by(|one, next| one.name == next.name) {
        let (gone, mut kept): (Vec<_>, Vec<_>) =
            group.iter().cloned().partition(|input| of_gone(&input.from));
        if let Some(first) = gone.first() {
            let known = |new: &&InputShape| group.iter().any(|input| input.from == new.from);
            let new = wanted.iter().filter(|input| of(&first.name, input));
            let new = new.filter(|input| !known(input)).cloned();
            kept.extend(new.map(|new| InputShape { name: first.name.clone(), ..new }));
            kept.sort_by(|a, b| a.from.cmp(&b.from));
        }
        left.append(&mut kept);
    }
    left
}

/// What the shape of a sink names, [enumerated](enumerate).
fn origins(from: Option<&str>) -> Vec<&str> {
    from.into_iter().flat_map(|from| from.split(", ")).flat_map(|it| it.split(" and ")).collect()
}

fn find<'a>(shape: &'a Shape, operator: &str) -> Option<&'a OperatorShape> {
    shape.operators.iter().find(|other| other.name == operator)
}

fn has_state(operator: &OperatorShape, state: &str) -> bool {
    operator.states.iter().any(|other| other.state == state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::tests::example;

    fn input(name: &str, from: &str) -> InputShape {
        InputShape {
            name: Some(name.into()),
            from: from.into(),
            columns: vec![format!("a = {from}")],
        }
    }

    /// An operator `count` and a sink take the rows of these; there are operators `a` and `b`.
    fn shape(origins: &[&str]) -> Shape {
        let mut shape = example(1).shape;
        let operator = shape.operators.remove(0);
        let named =
            |name: &str, inputs| OperatorShape { name: name.into(), inputs, ..operator.clone() };
        let inputs = origins.iter().map(|from| input("rows", from)).collect();
        shape.operators = vec![named("count", inputs)];
        for name in ["a", "b"].into_iter().filter(|name| origins.contains(name)) {
            shape.operators.push(named(name, vec![input("rows", "bids")]));
        }
        shape.sinks[0].from = Some(enumerate(origins, "and"));
        shape
    }

    #[test]
    fn one_of_several_origins_is_dropped_and_others_stay() {
        let (stored, wanted) = (shape(&["a", "b", "bids"]), shape(&["b", "bids"]));
        let left = without(&stored, &wanted, &["a".to_owned()]);
        assert_eq!(left.operators, wanted.operators);
        assert_eq!(left.sinks, wanted.sinks);
    }

    #[test]
    fn another_origin_in_place_of_the_dropped_one_is_taken() {
        let (stored, wanted) = (shape(&["a", "b"]), shape(&["b", "bids"]));
        let left = without(&stored, &wanted, &["a".to_owned()]);
        assert_eq!(left.operators, wanted.operators);
        assert_eq!(left.sinks, wanted.sinks);
    }

    #[test]
    fn an_origin_that_is_not_dropped_must_stay() {
        let (stored, wanted) = (shape(&["a", "b", "bids"]), shape(&["b"]));
        let left = without(&stored, &wanted, &["a".to_owned()]);
        assert_ne!(left.operators[0], wanted.operators[0]);
        assert_ne!(left.sinks, wanted.sinks);
    }

    #[test]
    fn a_name_that_could_be_another_state_drops_none() {
        let missing = ["a.last", "b.last", "last", "b.first"].map(str::to_owned);
        let named = |name: &str| meant(&missing, &[name.to_owned()]);
        assert_eq!(named("last"), ["last"]);
        assert_eq!(named("first"), ["b.first"]);
        assert_eq!(named("a.last"), ["a.last"]);
        assert_eq!(meant(&missing[..2], &["last".to_owned()]), Vec::<String>::new());
    }
}
