use hipdnn_plugin_sdk::graph::operation::Matmul;
use hipdnn_plugin_sdk::graph::{DataType, Node, Tensor};

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hipdnn-tuning-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn product(uid: i64, m: i64, k: i64, n: i64, data_type: DataType) -> Graph {
    let tensor =
        |uid, rows, columns| Tensor::new(uid, data_type, &[1, rows, columns], &[rows * columns, columns, 1]);
    let operation = Matmul { a: uid, b: uid + 1, c: uid + 2 };
    Graph {
        name: format!("graph {uid}"),
        tensors: vec![tensor(uid, m, k), tensor(uid + 1, k, n), tensor(uid + 2, m, n)],
        nodes: vec![Node::single(operation)],
        ..Graph::default()
    }
}

fn threads(count: i64) -> Configuration {
    Configuration {
        engine: 7,
        knobs: vec![KnobSetting { id: "threads".to_owned(), value: KnobValue::Int(count) }],
    }
}

#[test]
fn what_was_found_is_found_again_under_other_names_and_the_last_counts() {
    let folder = Folder::new("again");
    let store = Store::in_folder(&folder.0, b"device");
    let graph = product(1, 8, 16, 32, DataType::Float);
    assert_eq!(store.find(&graph), None);
    for count in [2, 3] {
        store.keep(&Tuning::new(&graph, "E", &threads(count), 1.0, 2.0)).unwrap();
    }
    let found = store.find(&product(40, 8, 16, 32, DataType::Float)).unwrap();
    assert_eq!(found.configuration(|name| (name == "E").then_some(7)), Some(threads(3)));
    assert_eq!(found.configuration(|_| None), None);
    assert_eq!(store.find(&product(1, 8, 16, 33, DataType::Float)), None);
    assert_eq!(Store::in_folder(&folder.0, b"another").find(&graph), None);
}

#[test]
fn graphs_of_other_shapes_are_similar_and_those_of_other_types_are_not() {
    let folder = Folder::new("similar");
    let store = Store::in_folder(&folder.0, b"device");
    for (m, data_type) in
        [(8, DataType::Float), (16, DataType::Float), (8, DataType::Half), (1 << 40, DataType::Float)]
    {
        store.keep(&Tuning::new(&product(1, m, 16, 32, data_type), "E", &threads(m), 1.0, 1.0)).unwrap();
    }
    let similar = store.similar(&product(1, 32, 16, 32, DataType::Float));
    let found: Vec<_> = similar.iter().filter_map(|found| found.configuration(|_| Some(7))).collect();
    assert_eq!(found, [threads(16), threads(8)]);
}

#[test]
fn damage_costs_the_lines_that_it_is_in() {
    let folder = Folder::new("damage");
    let store = Store::in_folder(&folder.0, b"device");
    let graphs: Vec<Graph> = (1..4).map(|m| product(1, m, 16, 32, DataType::Float)).collect();
    for graph in &graphs {
        store.keep(&Tuning::new(graph, "E", &threads(1), 1.0, 1.0)).unwrap();
    }
    let whole = fs::read(store.path()).unwrap();
    let mut damaged = whole.clone();
    let second = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    damaged[second] = 0xff;
    damaged.truncate(whole.len() - 1);
    fs::write(store.path(), damaged).unwrap();
    assert_eq!(
        graphs.iter().map(|graph| store.find(graph).is_some()).collect::<Vec<_>>(),
        [true, false, false]
    );
    fs::remove_file(store.path()).unwrap();
    fs::create_dir(store.path()).unwrap();
    assert_eq!(store.find(&graphs[0]), None);
    assert!(store.keep(&Tuning::new(&graphs[0], "E", &threads(1), 1.0, 1.0)).is_err());
}

#[test]
fn a_file_that_is_too_large_is_begun_anew() {
    let folder = Folder::new("large");
    let store = Store::in_folder(&folder.0, b"device");
    let graph = product(1, 8, 16, 32, DataType::Float);
    store.keep(&Tuning::new(&graph, "E", &threads(1), 1.0, 1.0)).unwrap();
    fs::write(store.path(), vec![b' '; LARGEST as usize]).unwrap();
    store.keep(&Tuning::new(&graph, "E", &threads(2), 1.0, 1.0)).unwrap();
    assert!(fs::metadata(store.path()).unwrap().len() < 4096);
    assert!(store.find(&graph).is_some());
}
