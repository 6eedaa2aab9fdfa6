//! Labels of figures: what the state store says of a table is said of an operator and its state.

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, Recorder, SharedString, Unit,
};

/// Hands figures on with the labels `operator` and `state` in place of `table`.
pub(super) struct Labelled<R>(pub(super) R);

impl<R: Recorder> Recorder for Labelled<R> {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, what: SharedString) {
        self.0.describe_counter(name, unit, what);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, what: SharedString) {
        self.0.describe_gauge(name, unit, what);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, what: SharedString) {
        self.0.describe_histogram(name, unit, what);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.0.register_counter(&labelled(key), metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.0.register_gauge(&labelled(key), metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.0.register_histogram(&labelled(key), metadata)
    }
}

fn labelled(key: &Key) -> Key {
    let labels: Vec<Label> = key.labels().flat_map(of_table).collect();
    Key::from_parts(key.name().to_owned(), labels)
}

/// Tables are called `<pipeline>__<operator>__<state>`; no part has `__` in it but the last.
fn of_table(label: &Label) -> Vec<Label> {
    let mut parts = label.value().splitn(3, "__").skip(1);
    match (label.key(), parts.next(), parts.next()) {
        ("table", Some(operator), Some(state)) => {
            vec![Label::new("operator", operator.to_owned()), Label::new("state", state.to_owned())]
        }
        _ => vec![label.clone()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_a_state_of_an_operator() {
        let shown = |table: &'static str| {
            let key = Key::from_parts("rows", vec![Label::new("table", table)]);
            let key = labelled(&key);
            let labels: Vec<String> =
                key.labels().map(|it| format!("{}={}", it.key(), it.value())).collect();
            labels.join(" ")
        };
        assert_eq!(shown("q18__last-bid__last"), "operator=last-bid state=last");
        assert_eq!(shown("q18__last-bid__a__b"), "operator=last-bid state=a__b");
        assert_eq!(shown("other"), "table=other");
    }
}
