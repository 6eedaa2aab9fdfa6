//! Persons who opened an auction in the ten seconds in which they appeared (Nexmark query 8): two
//! inputs that meet in a window.

use howdah_sdk::prelude::*;
use howdah_sdk::window::{Pane, Tumbling, WindowOptions, Windows};

/// A person appears.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewPerson {
    p_id: i64,
    name: String,
}

/// An auction opens. Its other columns do not matter here.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewAuction {
    seller: i64,
}

/// What comes in.
#[derive(Inputs, Debug, Clone, PartialEq)]
pub enum In {
    /// A person appears.
    #[input(name = "persons", key("p_id"))]
    Person(NewPerson),
    /// An auction opens.
    #[input(name = "auctions", key("seller"))]
    Auction(NewAuction),
}

/// Who appears and sells.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Person {
    p_id: i64,
}

/// What happened to a person in a window.
#[derive(Row, Reduce, Debug, Clone, PartialEq)]
pub struct Seen {
    /// Of whom appeared.
    #[reduce(first)]
    name: Option<String>,
    #[reduce(max)]
    sells: bool,
}

/// A person who appeared and sold.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewSeller {
    id: i64,
    name: String,
    window_start: Timestamp,
}

/// The operator.
pub struct NewSellers {
    windows: Windows<Person, Tumbling, Seen>,
}

#[operator]
impl NewSellers {
    fn open(open: &mut Open<Person>) -> Result<Self> {
        let windows = Tumbling::of_millis(10_000);
        Ok(Self { windows: open.windows("windows", windows, WindowOptions::default())? })
    }

    fn process(
        &mut self,
        row: In,
        record: &Record<Person>,
        out: &mut Emitter<NewSeller>,
    ) -> Result<()> {
        let seen = match row {
            In::Person(NewPerson { name, .. }) => Seen { name: Some(name), sells: false },
            In::Auction(_) => Seen { name: None, sells: true },
        };
        let added = self.windows.add(record, &seen)?;
        added.into_iter().try_for_each(|pane| emit(record, pane, out))
    }

    fn on_timer(&mut self, timer: &Timer<Person>, out: &mut Emitter<NewSeller>) -> Result<()> {
        let pane = self.windows.on_timer(timer)?;
        pane.into_iter().try_for_each(|pane| emit(timer, pane, out))
    }
}

fn emit(key: &CurrentKey<Person>, pane: Pane<Seen>, out: &mut Emitter<NewSeller>) -> Result<()> {
    if let Seen { name: Some(name), sells: true } = pane.result {
        let Person { p_id: id } = key.key()?;
        out.emit(&NewSeller { id, name, window_start: pane.window.start });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn appears(p_id: i64, millis: i64) -> Event<In> {
        let name = format!("person {p_id}");
        Event::insert(In::Person(NewPerson { p_id, name })).at(at(millis))
    }

    fn sells(seller: i64, millis: i64) -> Event<In> {
        Event::insert(In::Auction(NewAuction { seller })).at(at(millis))
    }

    fn new_seller(id: i64, start: i64) -> Event<NewSeller> {
        let (name, window_start) = (format!("person {id}"), at(start));
        Event::insert(NewSeller { id, name, window_start }).at(window_start.plus_millis(9_999))
    }

    #[test]
    fn who_appears_and_sells_in_a_window_comes_once_whatever_came_first() -> Result<()> {
        let mut host = TestHost::<NewSellers>::new()?;
        host.process_events([
            appears(1, 0),
            sells(1, 9_998),
            sells(1, 9_999),
            sells(2, 10_001),
            appears(2, 10_002),
        ])?;
        assert_eq!(host.advance_watermark(at(9_999))?, [new_seller(1, 0)]);
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, [new_seller(2, 10_000)]);
        Ok(())
    }

    #[test]
    fn who_sells_in_another_window_does_not_come() -> Result<()> {
        let mut host = TestHost::<NewSellers>::new()?;
        host.process_events([appears(1, 9_999), sells(1, 10_000), sells(2, 0), appears(3, 0)])?;
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, []);
        Ok(())
    }

    #[test]
    fn a_late_row_changes_nothing() -> Result<()> {
        let mut host = TestHost::<NewSellers>::new()?;
        host.process_events([appears(1, 0)])?;
        host.advance_watermark(at(9_999))?;
        assert_eq!(host.process_events([sells(1, 5)])?, []);
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, []);
        assert_eq!(host.counter("windows_late_rows_total"), 1);
        Ok(())
    }

    #[test]
    fn who_appeared_before_a_crash_is_known_after_it() -> Result<()> {
        let mut host = TestHost::<NewSellers>::new()?;
        host.process_events([appears(1, 0), appears(2, 0)])?;
        host.barrier()?;
        host.process_events([sells(2, 1)])?;
        host.crash();
        host.restore()?;
        host.process_events([sells(1, 1)])?;
        assert_eq!(host.advance_watermark(at(9_999))?, [new_seller(1, 0)]);
        Ok(())
    }
}
