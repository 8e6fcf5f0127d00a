use super::*;
use std::fs;

const GOLDEN: &str = include_str!("../../../c_tests/golden/ranking-0.4.0.jsonl");

fn key(text: &str) -> Key {
    Key(text.repeat(32))
}

/// A cache in a temporary folder, which is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hipdnn-ranking-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn cache(&self) -> Cache {
        Cache::new(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn find(cache: &Cache, key: &Key) -> Option<Vec<i64>> {
    cache.find(key).unwrap().map(|record| record.order.clone())
}

#[test]
fn stored_rankings_are_found() {
    let folder = Folder::new("found");
    let (cache, one) = (folder.cache(), key("1"));
    assert!(!cache.exists());
    assert_eq!(find(&cache, &one), None);
    assert_eq!(cache.store(&one, &Record::new(&[3, -1, 2], &[])), Ok(Stored::Written));
    assert!(cache.exists());
    assert_eq!(find(&cache, &one), Some(vec![3, -1, 2]));
    assert_eq!(find(&cache, &key("2")), None);
    assert_eq!(
        fs::read_to_string(cache.path(&one)).unwrap(),
        format!("{VERSION}\n{{\"key\":\"{}\",\"order\":[3,-1,2],\"sampledEngineIds\":[3,-1,2]}}\n", one.0)
    );
}

#[test]
fn a_ranking_that_adds_nothing_is_not_written() {
    let folder = Folder::new("unchanged");
    let (cache, one) = (folder.cache(), key("1"));
    assert_eq!(cache.store(&one, &Record::new(&[3, 1, 2], &[])), Ok(Stored::Written));
    let size = || fs::metadata(cache.path(&one)).unwrap().len();
    let before = size();
    assert_eq!(cache.store(&one, &Record::new(&[3, 1, 2], &[])), Ok(Stored::Unchanged));
    assert_eq!(cache.store(&one, &Record::new(&[1, 3], &[])), Ok(Stored::Unchanged));
    assert_eq!(size(), before);
    // Another order of the same engines, or an additional engine, is stored; the last line counts.
    assert_eq!(cache.store(&one, &Record::new(&[1, 2, 3], &[])), Ok(Stored::Written));
    assert_eq!(find(&cache, &one), Some(vec![1, 2, 3]));
    assert_eq!(cache.store(&one, &Record::new(&[4, 1], &[])), Ok(Stored::Written));
    assert_eq!(find(&cache, &one), Some(vec![4, 1]));
}

#[test]
fn times_are_kept_with_the_order_and_are_optional() {
    let folder = Folder::new("times");
    let (cache, one) = (folder.cache(), key("1"));
    let seconds = |engine| cache.find(&one).unwrap().unwrap().seconds(engine);
    let store = |times: &[f64]| cache.store(&one, &Record::new(&[3, 1, 2], times));
    assert_eq!(store(&[]), Ok(Stored::Written));
    assert_eq!(seconds(3), None);
    assert_eq!(store(&[0.5, 2.0, 0.0]), Ok(Stored::Written));
    assert_eq!([3, 1, 2, 4].map(seconds), [Some(5e-4), Some(2e-3), None, None]);
    // A program that knows only the order, or measures nearly the same, changes nothing.
    assert_eq!(store(&[]), Ok(Stored::Unchanged));
    assert_eq!(store(&[0.52, 2.1, 0.0]), Ok(Stored::Unchanged));
    assert_eq!(seconds(1), Some(2e-3));
    assert_eq!(store(&[0.5, 3.0, 0.0]), Ok(Stored::Written));
    assert_eq!(seconds(1), Some(3e-3));
    // Times that do not belong to the order are ignored.
    let path = cache.path(&one);
    let text = fs::read_to_string(&path).unwrap().replace("[0.5,3.0,0.0]", "[0.5,3.0]");
    fs::write(&path, text).unwrap();
    assert_eq!((seconds(1), find(&cache, &one)), (None, Some(vec![3, 1, 2])));
}

#[test]
fn a_ranking_is_used_only_when_it_knows_all_candidates() {
    let record = Record { sampled: vec![1, 2, 3, 4], order: vec![3, 1, 2], times: Vec::new() };
    assert_eq!(record.rank(&[1, 2, 3]), Some(vec![3, 1, 2]));
    assert_eq!(record.rank(&[2, 3]), Some(vec![3, 2]));
    assert_eq!(record.rank(&[4, 2, 3]), Some(vec![3, 2, 4]));
    assert_eq!(record.rank(&[1, 5]), None);
}

#[test]
fn files_of_this_version_stay_readable() {
    let key = Key("0123456789abcdef0123456789abcdef".into());
    let Ok(Content::Lines { record: Some(record), ends_well: true }) = parse(GOLDEN.as_bytes(), &key) else {
        panic!("{:?}", parse(GOLDEN.as_bytes(), &key));
    };
    assert_eq!(record.order, [1_564_098_713_137_905_954, 7, -6_725_870_411_246_313_949]);
    assert_eq!(record.sampled, [7, 1_564_098_713_137_905_954, -6_725_870_411_246_313_949, 9]);
}

#[test]
fn unfinished_lines_are_skipped_and_files_stay_usable() {
    let folder = Folder::new("torn");
    let (cache, one) = (folder.cache(), key("1"));
    cache.store(&one, &Record::new(&[1, 2], &[])).unwrap();
    let path = cache.path(&one);
    let whole = fs::read(&path).unwrap();
    let second = Record::new(&[2, 1], &[]).line(&one);
    // A process that died anywhere while it wrote the second line, or the whole file.
    for cut in 0..second.len() {
        fs::write(&path, [&whole, &second.as_bytes()[..cut]].concat()).unwrap();
        assert_eq!(find(&cache, &one), Some(vec![1, 2]), "{cut}");
        assert_eq!(cache.store(&one, &Record::new(&[5, 1, 2], &[])), Ok(Stored::Written), "{cut}");
        assert_eq!(find(&cache, &one), Some(vec![5, 1, 2]), "{cut}");
    }
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(find(&cache, &one), None, "{cut}");
        assert_eq!(cache.store(&one, &Record::new(&[5, 1, 2], &[])), Ok(Stored::Written), "{cut}");
        assert_eq!(find(&cache, &one), Some(vec![5, 1, 2]), "{cut}");
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    let folder = Folder::new("hostile");
    let (cache, one) = (folder.cache(), key("1"));
    cache.store(&one, &Record::new(&[1, 2], &[])).unwrap();
    let path = cache.path(&one);
    let good = fs::read_to_string(&path).unwrap();
    let line = good.lines().nth(1).unwrap().to_owned();
    let is = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        find(&cache, &one)
    };
    let lines: [&[u8]; 9] = [
        b"nonsense",
        b"\xff\xfe\x00",
        b"[]",
        b"{\"key\": 7}",
        b"null",
        b"",
        br#"{"key": "11111111111111111111111111111111", "order": [1.5], "sampledEngineIds": [1]}"#,
        br#"{"key": "11111111111111111111111111111111", "order": [], "sampledEngineIds": []}"#,
        br#"{"key": "11111111111111111111111111111111", "order": [18446744073709551615], "sampledEngineIds": [1]}"#,
    ];
    for bad in lines {
        let content = [good.as_bytes(), bad, b"\n"].concat();
        assert_eq!(is(&content), Some(vec![1, 2]), "{}", String::from_utf8_lossy(bad));
    }
    let deep = format!("{VERSION}\n{}\n{line}\n", "[".repeat(1 << 20));
    assert_eq!(is(deep.as_bytes()), Some(vec![1, 2]));
    assert_eq!(is(good.replace('\n', "\r\n").as_bytes()), Some(vec![1, 2]));

    fs::write(&path, good.replacen(VERSION, "9.9.9", 1)).unwrap();
    assert!(cache.find(&one).unwrap_err().contains("its version is 9.9.9"));
    assert!(cache.store(&one, &Record::new(&[2, 1], &[])).unwrap_err().contains("its version is 9.9.9"));
    // Larger than any file of ours; sparse, so that it costs nothing.
    fs::File::create(&path).unwrap().set_len(file::MOST + 1).unwrap();
    assert!(cache.find(&one).unwrap_err().contains("more than"));
    // The next ranking takes its place.
    assert_eq!(cache.store(&one, &Record::new(&[2, 1], &[])), Ok(Stored::Written));
    assert_eq!(cache.find(&one).unwrap().unwrap().rank(&[1, 2]), Some(vec![2, 1]));
    // Full files with our lines are also replaced, and stay within the limit.
    let line = format!("{}\n", "-".repeat(1 << 16));
    let filled = (good.clone() + &line.repeat(256)).into_bytes();
    assert!(filled.len() as u64 > file::MOST);
    for size in [filled.len(), usize::try_from(file::MOST).unwrap() - 10] {
        fs::write(&path, &filled[..size]).unwrap();
        assert_eq!(cache.store(&one, &Record::new(&[2, 1], &[])), Ok(Stored::Written));
        assert!(fs::metadata(&path).unwrap().len() < 200);
        assert_eq!(cache.find(&one).unwrap().unwrap().rank(&[1, 2]), Some(vec![2, 1]));
    }
    // A file of another version stays, whatever its size.
    fs::write(&path, [b"9.9.9\n", &filled[..]].concat()).unwrap();
    assert!(cache.store(&one, &Record::new(&[2, 1], &[])).unwrap_err().contains("its version is 9.9.9"));
    // Not even a file.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(cache.find(&one).is_err());
    assert!(cache.store(&one, &Record::new(&[2, 1], &[])).is_err());
    fs::remove_dir(&path).unwrap();
    if files::testing::pipe(&path).unwrap() {
        // Reading a pipe without a writer would block.
        assert!(cache.find(&one).unwrap_err().contains("plain file"));
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let cache = Cache::new(&Path::new(hipdnn_plugin_sdk::os::environment::NOWHERE).join("nowhere"));
    assert!(!cache.exists());
    assert!(cache.store(&key("1"), &Record::new(&[1], &[])).is_err());
}

#[test]
fn threads_do_not_lose_each_others_lines() {
    let folder = Folder::new("threads");
    let (cache, one) = (folder.cache(), key("1"));
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let (cache, one) = (&cache, &one);
            scope.spawn(move || {
                for i in 0..25 {
                    assert_eq!(
                        cache.store(one, &Record::new(&[thread, 1000 + thread * 100 + i], &[])),
                        Ok(Stored::Written)
                    );
                    cache.find(one).unwrap().unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(cache.path(&one)).unwrap();
    let records = text.lines().filter_map(|line| Record::parse(line.as_bytes(), &one));
    assert_eq!(records.count(), 100);
    assert_eq!(text.lines().count(), 101);
}
