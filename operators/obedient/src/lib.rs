//! Does what its rows say, to every kind of state that the SDK has, and says what came of it. Tests
//! run it in a sandbox and natively, and compare.

use howdah_sdk::prelude::*;
use howdah_sdk::window::{Hopping, Pane, Session, WindowOptions, Windows};

/// What to do to a key.
#[derive(Row, Clone, Debug, PartialEq)]
pub struct Order {
    /// The key.
    pub key: i64,
    /// One of [`VERBS`].
    pub verb: String,
    /// What is written, or where.
    pub a: i64,
    /// What is written.
    pub b: i64,
}

/// What came of an order, a timer or a window.
#[derive(Row, Clone, Debug, PartialEq)]
pub struct Answer {
    /// For people and for comparison.
    pub text: String,
}

/// What orders are grouped by.
#[derive(Key, Clone, Debug, PartialEq)]
pub struct OrderKey {
    /// The field of the same name.
    pub key: i64,
}

/// A map key of two fields.
#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    group: String,
    number: i64,
}

#[derive(Row, Clone, Debug)]
struct Number {
    value: Option<i64>,
}

#[derive(Row, Reduce, Clone, Debug)]
struct Folded {
    #[reduce(sum)]
    sum: i64,
    #[reduce(count)]
    count: i64,
    #[reduce(min)]
    min: Option<i64>,
    #[reduce(max)]
    max: String,
    #[reduce(first)]
    first: i64,
    #[reduce(last)]
    last: i64,
}

/// What orders may say.
pub const VERBS: [&str; 22] = [
    "set",
    "value",
    "delete",
    "append",
    "list",
    "clear list",
    "put",
    "get",
    "remove",
    "entries",
    "range",
    "range to",
    "clear map",
    "add",
    "folded",
    "clear folded",
    "timer",
    "delete timer",
    "hop",
    "session",
    "fail",
    "now",
];

/// The operator.
pub struct Obedient {
    value: ValueState<OrderKey, Number>,
    list: ListState<OrderKey, Number>,
    map: MapState<OrderKey, Item, Number>,
    folded: ReducingState<OrderKey, Folded>,
    timers: Timers<OrderKey>,
    hops: Windows<OrderKey, Hopping, Folded>,
    sessions: Windows<OrderKey, Session, Folded>,
    orders: Counter,
}

/// Items whose order by size is not that of their bytes.
fn item(a: i64) -> Item {
    Item { group: if a % 3 == 0 { "z".to_owned() } else { "a".to_owned() }, number: a - 3 }
}

fn number(a: i64) -> Number {
    Number { value: (a % 4 != 0).then_some(a) }
}

fn folded(a: i64, b: i64) -> Folded {
    let min = (a % 2 == 0).then_some(b);
    Folded { sum: a, count: 1, min, max: format!("{b}"), first: a, last: b }
}

#[operator]
impl Obedient {
    fn open(open: &mut Open<OrderKey>) -> Result<Self> {
        let late = WindowOptions { allowed_lateness_ms: 20 };
        Ok(Self {
            value: open.value("value")?,
            list: open.list("list")?,
            map: open.map("map")?,
            folded: open.reducing("folded")?,
            timers: open.event_timers("timers")?,
            hops: open.windows("hops", Hopping::of_millis(30, 10), late)?,
            sessions: open.windows("sessions", Session::of_millis(15), WindowOptions::default())?,
            orders: open.counter("orders_total")?,
        })
    }

    fn prepare(&mut self, order: &Order, record: &Record<OrderKey>) -> Result<()> {
        if order.verb == "get" {
            self.map.want(record, item(order.a));
        }
        Ok(())
    }

    fn process(
        &mut self,
        order: Order,
        record: &Record<OrderKey>,
        out: &mut Emitter<Answer>,
    ) -> Result<()> {
        self.orders.add(1);
        let Order { key, verb, a, b } = order;
        let limit = usize::try_from(b).unwrap_or(0);
        let text = match verb.as_str() {
            "value" => format!("{:?}", self.value.get(record)?),
            "list" => format!("{:?}", self.list.get(record)?),
            "get" => format!("{:?}", self.map.get(record, &item(a))?),
            "entries" => format!("{:?}", self.map.entries(record)?),
            "range" => format!("{:?}", self.map.range(record, item(a).., limit)?),
            "range to" => format!("{:?}", self.map.range(record, ..=item(a), limit)?),
            "folded" => format!("{:?}", self.folded.get(record)?),
            "now" => format!("{}", record.now() == howdah_sdk::now()),
            "hop" | "session" => {
                let result = folded(a, b);
                let added = if verb == "hop" {
                    self.hops.add(record, &result)?
                } else {
                    self.sessions.add(record, &result)?
                };
                let late = added.is_late();
                let panes: Vec<Pane<Folded>> = added.into_iter().collect();
                format!("late: {late}, {panes:?}")
            }
            other => {
                self.write(other, (a, b), record)?;
                return Ok(());
            }
        };
        out.emit(&Answer { text: format!("{key} {verb} {a} {b}: {text}") });
        Ok(())
    }

    fn on_timer(&mut self, timer: &Timer<OrderKey>, out: &mut Emitter<Answer>) -> Result<()> {
        let OrderKey { key } = timer.key()?;
        let time = timer.time().millis();
        let what = if timer.is(&self.timers) {
            // Timers at even times are followed by one more.
            if time % 2 == 0 {
                self.timers.set(timer, timer.time().plus_millis(7));
            }
            self.list.append(timer, number(time));
            format!("timer, value {:?}", self.value.get(timer)?)
        } else if let Some(pane) = self.hops.on_timer(timer)? {
            format!("hop {pane:?}")
        } else if let Some(pane) = self.sessions.on_timer(timer)? {
            format!("session {pane:?}")
        } else {
            return Ok(());
        };
        out.emit(&Answer { text: format!("{key} at {time}: {what}") });
        Ok(())
    }

    fn on_watermark(&mut self, watermark: Timestamp, out: &mut Emitter<Answer>) -> Result<()> {
        out.emit(&Answer { text: format!("watermark {}", watermark.millis()) });
        Ok(())
    }

    fn write(&mut self, verb: &str, (a, b): (i64, i64), record: &Record<OrderKey>) -> Result<()> {
        match verb {
            "set" => self.value.put(record, number(a)),
            "delete" => self.value.delete(record),
            "append" => self.list.append(record, number(a)),
            "clear list" => self.list.clear(record),
            "put" => self.map.put(record, item(a), number(b)),
            "remove" => self.map.remove(record, item(a)),
            "clear map" => self.map.clear(record),
            "add" => self.folded.add(record, folded(a, b))?,
            "clear folded" => self.folded.clear(record),
            "timer" => self.timers.set(record, Timestamp::from_millis(a * 10)),
            "delete timer" => self.timers.delete(record, Timestamp::from_millis(a * 10)),
            "fail" => return Err(Error::new("as ordered")),
            other => return Err(Error::new(format!("no idea what {other} is"))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::TestHost;

    #[test]
    fn every_verb_but_one_is_obeyed() -> Result<()> {
        let mut host = TestHost::<Obedient>::new()?;
        for verb in VERBS {
            let order = Order { key: 1, verb: verb.to_owned(), a: 2, b: 3 };
            assert_eq!(host.process([order]).is_err(), verb == "fail", "{verb}");
            host.restore()?;
        }
        assert!(host.process([Order { key: 1, verb: "dance".to_owned(), a: 0, b: 0 }]).is_err());
        Ok(())
    }
}
