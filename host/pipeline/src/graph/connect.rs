//! From names in the pipeline file to links.

use super::{Consumer, Link, Producer};
use crate::config::{Located, enumerate};
use crate::error::suggestion;
use std::collections::BTreeMap;

/// The nodes of a pipeline file, in its order.
#[derive(Debug, Default)]
pub(crate) struct Stated {
    pub(crate) sources: Vec<Located<String>>,
    pub(crate) operators: Vec<StatedNode>,
    pub(crate) sinks: Vec<StatedNode>,
}

/// An operator or a sink.
#[derive(Debug)]
pub(crate) struct StatedNode {
    pub(crate) name: String,
    /// The line of its table.
    pub(crate) line: u32,
    pub(crate) inputs: Vec<StatedInput>,
}

/// What a node says about an input.
#[derive(Debug, Clone)]
pub(crate) struct StatedInput {
    /// See [`Link::input`].
    pub(crate) port: Option<Located<String>>,
    /// `NAME` or `OPERATOR.port`; `None`: where there is no choice.
    pub(crate) from: Option<Located<String>>,
    pub(crate) line: u32,
    /// See [`Link::key`].
    pub(crate) key: Vec<Located<String>>,
    /// See [`Link::columns`].
    pub(crate) columns: Vec<(Located<String>, Located<String>)>,
}

impl StatedInput {
    /// The same of each of these that are named, or of the one that need not be.
    pub(crate) fn of_each(self, named: Vec<Located<String>>) -> Vec<Self> {
        if named.is_empty() {
            return vec![self];
        }
        named.into_iter().map(|from| Self { from: Some(from), ..self.clone() }).collect()
    }
}

/// The links of a pipeline file without problems.
#[derive(Debug)]
pub(crate) struct Connected {
    /// Operators are numbered by their places.
    pub(crate) links: Vec<Link>,
    /// For each operator its place in an order in which each comes after those whose rows it
    /// takes; those that are free to come in any order keep that of the file.
    pub(crate) order: Vec<usize>,
}

impl Stated {
    /// Finds what is behind the names. `problem` hears of every name that is not known or not
    /// distinct, every node that nothing is taken from, and of operators that take their own rows.
    pub(crate) fn connect(&self, problem: &mut dyn FnMut(u32, String)) -> Connected {
        let producers = self.producers(problem);
        let mut links = Vec::new();
        for (index, operator) in self.operators.iter().enumerate() {
            let to = Consumer::Operator(index);
            links.extend(self.links_of(operator, "operator", to, &producers, problem));
        }
        for (index, sink) in self.sinks.iter().enumerate() {
            let to = Consumer::Sink(index);
            links.extend(self.links_of(sink, "sink", to, &producers, problem));
        }
        // What is said of nodes that others could not name is of no use.
        let whole = links.len() == self.inputs();
        for (index, source) in self.sources.iter().enumerate().filter(|_| whole) {
            if !links.iter().any(|link| link.from == Producer::Source(index)) {
                let name = &source.value;
                let message = format!("nothing takes source `{name}`: name it as an `input`");
                problem(source.line, message);
            }
        }
        let order = self.order(&links, problem);
        let place = |operator: usize| order.get(operator).copied().unwrap_or(operator);
        for link in &mut links {
            if let Producer::Operator(operator) = &mut link.from {
                *operator = place(*operator);
            }
            if let Consumer::Operator(operator) = &mut link.to {
                *operator = place(*operator);
            }
        }
        Connected { links, order }
    }

    fn inputs(&self) -> usize {
        self.operators.iter().chain(&self.sinks).map(|node| node.inputs.len()).sum()
    }

    /// What can be named as an input.
    fn producers(&self, problem: &mut dyn FnMut(u32, String)) -> BTreeMap<&str, Producer> {
        let sources =
            self.sources.iter().enumerate().map(|(index, source)| {
                (source.value.as_str(), source.line, Producer::Source(index))
            });
        let operators = self.operators.iter().enumerate().map(|(index, operator)| {
            (operator.name.as_str(), operator.line, Producer::Operator(index))
        });
        let mut producers = BTreeMap::new();
        for (name, line, producer) in sources.chain(operators) {
            if producers.insert(name, producer).is_some() {
                let message = format!(
                    "`{name}` is the name of a source and of an operator; rename one of them"
                );
                problem(line, message);
            }
        }
        producers
    }

    fn links_of(
        &self,
        node: &StatedNode,
        kind: &str,
        to: Consumer,
        producers: &BTreeMap<&str, Producer>,
        problem: &mut dyn FnMut(u32, String),
    ) -> Vec<Link> {
        if node.inputs.is_empty() {
            problem(node.line, format!("{kind} `{}` has no inputs", node.name));
        }
        let mut links = Vec::new();
        for input in &node.inputs {
            let found = match &input.from {
                Some(from) => find(from, producers).map(|found| (found, from.line)),
                None => self.only_producer(to).map(|from| ((from, None), input.line)).ok_or((
                    input.line,
                    format!("{kind} `{}` lacks `input`; {}", node.name, choices(producers)),
                )),
            };
            match found {
                Ok(((from, output), line)) => links.push(Link {
                    from,
                    output,
                    to,
                    input: input.port.clone(),
                    key: input.key.clone(),
                    columns: input.columns.clone(),
                    line,
                }),
                Err((line, message)) => problem(line, message),
            }
        }
        links
    }

    /// What a node takes that does not say it: where there is one of each, that is clear.
    fn only_producer(&self, to: Consumer) -> Option<Producer> {
        match (to, self.sources.len(), self.operators.len(), self.sinks.len()) {
            (Consumer::Operator(_), 1, 1, _) => Some(Producer::Source(0)),
            (Consumer::Sink(_), _, 1, 1) => Some(Producer::Operator(0)),
            (Consumer::Sink(_), 1, 0, 1) => Some(Producer::Source(0)),
            _ => None,
        }
    }

    /// See [`Connected::order`].
    fn order(&self, links: &[Link], problem: &mut dyn FnMut(u32, String)) -> Vec<usize> {
        let before = |operator: usize| {
            let inputs = links.iter().filter(move |link| link.to == Consumer::Operator(operator));
            inputs.filter_map(|link| match link.from {
                Producer::Operator(from) => Some(from),
                Producer::Source(_) => None,
            })
        };
        let mut order: Vec<Option<usize>> = vec![None; self.operators.len()];
        let placed = |order: &[Option<usize>], operator: usize| {
            order.get(operator).copied().flatten().is_some()
        };
        for place in 0..order.len() {
            let free = (0..order.len()).find(|operator| {
                !placed(&order, *operator) && before(*operator).all(|from| placed(&order, from))
            });
            let Some(free) = free.and_then(|free| order.get_mut(free)) else { break };
            *free = Some(place);
        }
        let stuck: Vec<usize> = (0..order.len()).filter(|at| !placed(&order, *at)).collect();
        if let Some(first) = stuck.first() {
            // Each that is stuck takes rows of one that is: going back comes round.
            let mut cycle = vec![*first];
            while let Some(from) =
                cycle.last().and_then(|last| before(*last).find(|from| stuck.contains(from)))
            {
                if let Some(start) = cycle.iter().position(|seen| *seen == from) {
                    cycle.drain(..start);
                    break;
                }
                cycle.push(from);
            }
            cycle.reverse();
            self.tell_of_cycle(&cycle, problem);
        }
        order.into_iter().enumerate().map(|(at, place)| place.unwrap_or(at)).collect()
    }

    fn tell_of_cycle(&self, cycle: &[usize], problem: &mut dyn FnMut(u32, String)) {
        let operators = || cycle.iter().filter_map(|operator| self.operators.get(*operator));
        let names: Vec<String> = operators().map(|node| format!("`{}`", node.name)).collect();
        let line = operators().map(|node| node.line).min().unwrap_or(1);
        let message = match names.as_slice() {
            [name] => format!("operator {name} takes its own rows"),
            names => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let names = enumerate(&names, "and");
                format!("operators {names} take each other's rows in a circle")
            }
        };
        problem(line, format!("{message}; rows go one way, from sources to sinks"));
    }
}

type Found = (Producer, Option<Located<String>>);

/// What a name stands for, with the output of an operator; or what is wrong with it.
fn find(
    from: &Located<String>,
    producers: &BTreeMap<&str, Producer>,
) -> Result<Found, (u32, String)> {
    let (name, output) = match from.value.split_once('.') {
        None => (from.value.as_str(), None),
        Some((name, output)) => (name, Some(output)),
    };
    let wrong = |message| Err((from.line, message));
    match (producers.get(name), output) {
        (None, _) => {
            let close = suggestion(name, producers.keys().copied());
            let way_out =
                if close.is_empty() { format!("; {}", choices(producers)) } else { close };
            wrong(format!("there is no source or operator `{name}`{way_out}"))
        }
        (Some(Producer::Source(_)), Some(_)) => {
            wrong(format!("`{name}` is a source, which has no outputs with names; leave `.…` out"))
        }
        (Some(producer), output) => {
            let located = |output: &str| Located { value: output.to_owned(), line: from.line };
            Ok((*producer, output.map(located)))
        }
    }
}

fn choices(producers: &BTreeMap<&str, Producer>) -> String {
    let names: Vec<&str> = producers.keys().copied().collect();
    match names.as_slice() {
        [] => "there is nothing to take".to_owned(),
        names => format!("there are {}", enumerate(names, "and")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(from: Option<&str>, line: u32) -> StatedInput {
        let from = from.map(|from| Located { value: from.to_owned(), line });
        StatedInput { port: None, from, line, key: Vec::new(), columns: Vec::new() }
    }

    /// A node for each name, with the names that it takes; lines are counted from 1.
    fn stated(sources: &[&str], operators: &[(&str, &[&str])], sinks: &[(&str, &str)]) -> Stated {
        let mut line = 0;
        let mut next = || {
            line += 1;
            line
        };
        let sources = sources
            .iter()
            .map(|name| Located { value: (*name).to_owned(), line: next() })
            .collect();
        let mut node = |name: &str, inputs: &[&str]| {
            let line = next();
            let inputs = inputs.iter().map(|from| input(Some(from), line)).collect();
            StatedNode { name: name.to_owned(), line, inputs }
        };
        Stated {
            sources,
            operators: operators.iter().map(|(name, inputs)| node(name, inputs)).collect(),
            sinks: sinks.iter().map(|(name, from)| node(name, &[from])).collect(),
        }
    }

    fn problems(stated: &Stated) -> Vec<String> {
        let mut problems = Vec::new();
        stated.connect(&mut |line, problem| problems.push(format!("{line}: {problem}")));
        problems
    }

    fn links(stated: &Stated) -> Vec<(Producer, Consumer)> {
        let connected = stated.connect(&mut |line, problem| panic!("{line}: {problem}"));
        connected.links.iter().map(|link| (link.from, link.to)).collect()
    }

    #[test]
    fn one_of_each_needs_no_names() {
        let mut stated = stated(&["source"], &[("count", &[])], &[]);
        stated.operators[0].inputs = vec![input(None, 2)];
        let sink = StatedNode { name: "sink".into(), line: 3, inputs: vec![input(None, 3)] };
        stated.sinks.push(sink);
        let expected = [
            (Producer::Source(0), Consumer::Operator(0)),
            (Producer::Operator(0), Consumer::Sink(0)),
        ];
        assert_eq!(links(&stated), expected);
    }

    #[test]
    fn operators_come_after_those_whose_rows_they_take() {
        let stated = stated(
            &["a", "b"],
            &[("last", &["join.late", "a"]), ("join", &["map", "b"]), ("map", &["a"])],
            &[("out", "last")],
        );
        let connected = stated.connect(&mut |line, problem| panic!("{line}: {problem}"));
        assert_eq!(connected.order, [2, 1, 0]);
        let expected = [
            (Producer::Operator(1), Consumer::Operator(2)),
            (Producer::Source(0), Consumer::Operator(2)),
            (Producer::Operator(0), Consumer::Operator(1)),
            (Producer::Source(1), Consumer::Operator(1)),
            (Producer::Source(0), Consumer::Operator(0)),
            (Producer::Operator(2), Consumer::Sink(0)),
        ];
        assert_eq!(links(&stated), expected);
        let output = connected.links[0].output.as_ref().map(|output| output.value.as_str());
        assert_eq!(output, Some("late"));
    }

    #[test]
    fn all_names_that_are_wrong_are_told_at_once() {
        let stated = stated(
            &["bids", "clicks"],
            &[("count", &["bid"]), ("clicks", &["bids.late"])],
            &[("out", "zzz")],
        );
        assert_eq!(
            problems(&stated),
            [
                "4: `clicks` is the name of a source and of an operator; rename one of them",
                "3: there is no source or operator `bid`; did you mean `bids`?",
                "4: `bids` is a source, which has no outputs with names; leave `.…` out",
                "5: there is no source or operator `zzz`; there are bids, clicks and count",
            ]
        );
    }

    #[test]
    fn an_input_that_is_not_clear_is_to_be_named() {
        let mut stated = stated(&["a", "b"], &[("count", &[])], &[("out", "count")]);
        stated.operators[0].inputs = vec![input(None, 3)];
        assert_eq!(
            problems(&stated),
            ["3: operator `count` lacks `input`; there are a, b and count"]
        );
        stated.operators[0].inputs.clear();
        assert_eq!(problems(&stated)[0], "3: operator `count` has no inputs");
    }

    #[test]
    fn a_source_that_nothing_takes_is_told() {
        let stated = stated(&["a", "b"], &[("count", &["a"])], &[("out", "count")]);
        assert_eq!(problems(&stated), ["2: nothing takes source `b`: name it as an `input`"]);
    }

    #[test]
    fn circles_are_told_with_those_in_them() {
        let stated = stated(
            &["a"],
            &[("x", &["a", "z"]), ("y", &["x"]), ("z", &["y"]), ("w", &["z"])],
            &[("out", "w")],
        );
        assert_eq!(
            problems(&stated),
            ["2: operators `y`, `z` and `x` take each other's rows in a circle; rows go one way, \
                 from sources to sinks"]
        );
        let own = self::stated(&["a"], &[("x", &["a", "x"])], &[("out", "x")]);
        let message = "2: operator `x` takes its own rows; rows go one way, from sources to sinks";
        assert_eq!(problems(&own), [message]);
    }
}
