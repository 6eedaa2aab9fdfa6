//! States under keys of the operator's choice, outside of rows and timers: one call for all keys.

use howdah_sdk::prelude::*;
use howdah_sdk::testing::TestHost;

#[derive(Row, Clone, Debug, PartialEq)]
struct Word {
    key: i64,
    text: String,
}

#[derive(Key, Clone, Debug, PartialEq)]
struct WordKey {
    key: i64,
}

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    place: i64,
}

#[derive(Row, Clone, Debug, PartialEq)]
struct Number {
    number: i64,
}

#[derive(Row, Reduce, Clone, Debug, PartialEq)]
struct Total {
    #[reduce(sum)]
    total: i64,
}

#[derive(States)]
struct Flusher {
    list: ListState<WordKey, Number>,
    map: MapState<WordKey, Place, Number>,
    totals: ReducingState<WordKey, Total>,
    #[state(skip)]
    clears: bool,
}

fn keys() -> [WordKey; 3] {
    [1, 2, 3].map(|key| WordKey { key })
}

#[operator]
impl Flusher {
    fn process(
        &mut self,
        word: Word,
        record: &Record<WordKey>,
        _: &mut Emitter<Word>,
    ) -> Result<()> {
        match word.text.as_str() {
            "clear" => self.clears = true,
            "many" => drop(self.list.get_many(&[record.key()?])?),
            _ => {}
        }
        Ok(())
    }

    fn on_barrier(&mut self, _: u64, out: &mut Emitter<Word>) -> Result<()> {
        let [one, two, three] = keys();
        if self.clears {
            self.list.clear_many(std::slice::from_ref(&two))?;
            self.map.clear_many(std::slice::from_ref(&two))?;
            self.map.remove_many(&[(one.clone(), Place { place: 7 })])?;
            self.totals.clear_many(&[two])?;
        } else {
            let number = |number| Number { number };
            let rows =
                [(one.clone(), number(1)), (two.clone(), number(2)), (one.clone(), number(3))];
            self.list.append_many(&rows)?;
            // More than the host hands out at a time of one map.
            let entries = (0..10_000).map(|place| (one.clone(), Place { place }, number(place)));
            self.map.put_many(&entries.collect::<Vec<_>>())?;
            self.map.put_many(&[(two.clone(), Place { place: 7 }, number(70))])?;
            let total = |total| Total { total };
            self.totals.add_many(&[(one.clone(), total(4)), (two, total(5)), (one, total(6))])?;
        }
        for (WordKey { key }, list) in keys().into_iter().zip(self.list.get_many(&keys())?) {
            let numbers: Vec<i64> = list.into_iter().map(|row| row.number).collect();
            out.emit(&Word { key, text: format!("list {numbers:?}") });
        }
        for (WordKey { key }, map) in keys().into_iter().zip(self.map.entries_many(&keys())?) {
            assert!(key == 2 || map.iter().all(|(place, row)| row.number == place.place));
            assert!(map.is_sorted_by_key(|(place, _)| place.place));
            out.emit(&Word { key, text: format!("map of {}", map.len()) });
        }
        let wanted = keys().map(|key| (key, Place { place: 7 }));
        let found = self.map.get_many(&wanted)?.into_iter().map(|row| row.map(|row| row.number));
        out.emit(&Word { key: 0, text: format!("{:?}", found.collect::<Vec<_>>()) });
        let totals = self.totals.get_many(&[three, WordKey { key: 2 }, WordKey { key: 1 }])?;
        let totals: Vec<_> = totals.into_iter().map(|row| row.map(|row| row.total)).collect();
        out.emit(&Word { key: 0, text: format!("{totals:?}") });
        Ok(())
    }
}

fn texts(host: &mut TestHost<Flusher>) -> Result<Vec<String>> {
    Ok(host.barrier()?.into_iter().map(|event| event.row.text).collect())
}

#[test]
fn lists_maps_and_totals_are_written_read_and_cleared_under_chosen_keys() -> Result<()> {
    let mut host = TestHost::<Flusher>::new()?;
    assert_eq!(
        texts(&mut host)?,
        [
            "list [1, 3]",
            "list [2]",
            "list []",
            "map of 10000",
            "map of 1",
            "map of 0",
            "[Some(7), Some(70), None]",
            "[None, Some(5), Some(10)]",
        ]
    );
    host.process([Word { key: 1, text: "clear".to_owned() }])?;
    assert_eq!(
        texts(&mut host)?,
        [
            "list [1, 3]",
            "list []",
            "list []",
            "map of 9999",
            "map of 0",
            "map of 0",
            "[None, None, None]",
            "[None, None, Some(10)]",
        ]
    );
    Ok(())
}

#[test]
fn chosen_keys_are_refused_while_rows_are_processed() -> Result<()> {
    let mut host = TestHost::<Flusher>::new()?;
    let error = host.process([Word { key: 1, text: "many".to_owned() }]).unwrap_err();
    assert!(error.message().contains("give the record or the timer instead of keys"), "{error}");
    Ok(())
}
