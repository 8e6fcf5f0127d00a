//! `hipdnn check` and `hipdnn claims`, on bundles that the tests write in the layout of AMD's integration tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::{Scratch, hipdnn, one_line, refuse, succeed, with_useless_engine};

pub fn write(path: &str, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

pub fn write_json(path: &str, json: &Value) {
    write(path, json.to_string());
}

pub fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Values that differ, from -1 to 1.
fn value(at: usize) -> f32 {
    (at * 37 % 101) as f32 / 50.0 - 1.0
}

pub fn tensor(uid: i64, name: &str, dims: &[i64], strides: &[i64]) -> Value {
    json!({"uid": uid, "name": name, "data_type": "float", "dims": dims, "strides": strides, "virtual": false})
}

/// y = scale · (x - mean) · inv_variance + bias, channels last, as `BatchnormFwdInference/nhwc/fp32`.
fn batchnorm() -> Value {
    let (dims, strides) = ([2, 3, 4, 4], [48, 1, 12, 3]);
    let of_channels = |uid, name| tensor(uid, name, &[1, 3, 1, 1], &[3, 1, 3, 3]);
    json!({
        "name": "", "io_data_type": "float", "intermediate_data_type": "float", "compute_data_type": "float",
        "nodes": [{
            "type": "BatchnormInferenceAttributes", "name": "", "compute_data_type": "float",
            "inputs": {"x_tensor_uid": 0, "mean_tensor_uid": 1, "inv_variance_tensor_uid": 2, "scale_tensor_uid": 3,
                       "bias_tensor_uid": 4},
            "outputs": {"y_tensor_uid": 5}
        }],
        "tensors": [tensor(0, "X", &dims, &strides), of_channels(1, "mean"), of_channels(2, "inv_variance"),
                    of_channels(3, "scale"), of_channels(4, "bias"), tensor(5, "Y", &dims, &strides)]
    })
}

pub const METADATA: &str =
    r#"{"format_version": 1, "generator": "these tests", "reference_source": "formula", "seed": 42}"#;

/// A folder with that bundle, its inputs and its results. Returns the graph's path without its extension.
pub fn golden_batchnorm(scratch: &Scratch) -> String {
    let stem = scratch.file("quick/BatchnormFwdInference/nhwc/fp32/Small/Small");
    write_json(&format!("{stem}.json"), &batchnorm());
    write(&format!("{stem}.meta.json"), METADATA);
    let parameter = |uid: usize, channel: usize| value(7 * uid + channel) + if uid == 2 { 2.0 } else { 0.0 };
    write(&format!("{stem}.tensor0.bin"), floats((0..96).map(value)));
    for uid in 1..=4 {
        write(&format!("{stem}.tensor{uid}.bin"), floats((0..3).map(|channel| parameter(uid, channel))));
    }
    // In memory, the channel is last.
    let y = (0..96).map(|at| {
        let [mean, inverse, scale, bias] = [1, 2, 3, 4].map(|uid| f64::from(parameter(uid, at % 3)));
        (scale * (f64::from(value(at)) - mean) * inverse + bias) as f32
    });
    write(&format!("{stem}.tensor5.bin"), floats(y));
    stem
}

/// A 1×1 convolution and a sum, as `ConvolutionFwdPointwise`: sizes, strides and types are each case's.
fn template() -> Value {
    let tensor = |uid: i64, name: &str, is_virtual: bool| {
        json!({"uid": uid, "name": name, "data_type": "${case.data_type}", "dims": "${case.dims}",
               "strides": "${case.strides}", "virtual": is_virtual})
    };
    json!({
        "name": "Conv Bias", "io_data_type": "${case.io_data_type}", "intermediate_data_type": "float",
        "compute_data_type": "float",
        "nodes": [
            {"type": "ConvolutionFwdAttributes", "name": "conv", "compute_data_type": "float",
             "inputs": {"w_tensor_uid": 3, "x_tensor_uid": 4}, "outputs": {"y_tensor_uid": 0},
             "parameters": {"conv_mode": "CROSS_CORRELATION", "dilation": [1, 1], "post_padding": [0, 0],
                            "pre_padding": [0, 0], "stride": "${case.attributes.stride}"}},
            {"type": "PointwiseAttributes", "name": "bias", "compute_data_type": "float",
             "inputs": {"operation": "add", "in_0_tensor_uid": 0, "in_1_tensor_uid": 2},
             "outputs": {"out_0_tensor_uid": 1}}
        ],
        "tensors": [tensor(0, "conv::Y", true), tensor(1, "bias::OUT_0", false), tensor(2, "bias", false),
                    tensor(3, "w", false), tensor(4, "x", false)]
    })
}

/// A case of 3 channels and 4×4 places, whose rows are `row` elements from one another.
fn case(id: &str, row: i64) -> Value {
    let image = |uid: i64| json!({"uid": uid, "data_type": "float", "dims": [1, 3, 4, 4], "strides": [12 * row, 4 * row, row, 1]});
    let filter = json!({"uid": 3, "data_type": "float", "dims": [3, 3, 1, 1], "strides": [3, 1, 1, 1]});
    json!({"id": id, "metadata": {"format_version": 1, "seed": 0},
           "values": {"io_data_type": "float", "attributes": {"stride": [1, 1]},
                      "tensors": [image(0), image(1), image(2), filter, image(4)]}})
}

/// A sweep with three cases: with golden values and gaps between rows, without values, and one that cannot be read.
fn sweep(scratch: &Scratch) -> String {
    let folder = scratch.file("quick/ConvolutionFwdPointwise/Default");
    write_json(&format!("{folder}/graph.template.json"), &template());
    let mut golden = case("1_3_4_4_nchw", 8);
    golden["golden"] = json!({"path": "golden/1_3_4_4_nchw/tensors.dvc"});
    let mut broken = case("no_strides", 4);
    broken["values"]["tensors"][2].as_object_mut().unwrap().remove("strides");
    write_json(
        &format!("{folder}/sweep.json"),
        &json!({"version": 1, "cases": [golden, case("1_3_4_4_packed", 4), broken]}),
    );
    let at = |channel: usize, y: usize, x: usize| 32 * channel + 8 * y + x;
    let extent = at(2, 3, 3) + 1;
    let file = |uid: usize| format!("{folder}/golden/1_3_4_4_nchw/tensor{uid}.bin");
    write(&file(4), floats((0..extent).map(value)));
    write(&file(2), floats((0..extent).map(|at| value(at + 5))));
    write(&file(3), floats((0..9).map(value)));
    let mut y = vec![f32::NAN; extent];
    for (channel, row, column) in (0..48).map(|at| (at / 16, at / 4 % 4, at % 4)) {
        let term = |of: usize| f64::from(value(3 * channel + of)) * f64::from(value(at(of, row, column)));
        let place = at(channel, row, column);
        y[place] = ((0..3).map(term).sum::<f64>() + f64::from(value(place + 5))) as f32;
    }
    write(&file(1), floats(y));
    folder
}

/// Multiples of 1/32 from -1 to 1, which bfloat16 holds.
fn short(at: usize) -> f64 {
    ((at * 37 % 65) as f64 - 32.0) / 32.0
}

fn bfloats(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    let nearest = |value: f64| {
        let bits = (value as f32).to_bits();
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
    };
    values.into_iter().flat_map(|value| nearest(value).to_le_bytes()).collect()
}

const HEADS: usize = 2;
const LENGTH: usize = 6;
const WIDTH: usize = 8;

/// Attention with a causal mask, heads between positions and columns, as `SdpaFwd/bshd/bf16/hd128_causal_batch`.
fn golden_attention(scratch: &Scratch) -> String {
    let stem = scratch.file("quick/SdpaFwd/bshd/bf16/causal/Small/Small");
    let tensor = |uid: usize, name: &str| {
        json!({"uid": uid, "name": name, "dims": [1, HEADS, LENGTH, WIDTH], "data_type": "bfloat16", "virtual": false,
               "strides": [HEADS * LENGTH * WIDTH, WIDTH, HEADS * WIDTH, 1]})
    };
    let mut inputs = json!({"q_tensor_uid": 0, "k_tensor_uid": 1, "v_tensor_uid": 2});
    for role in ["attn_mask", "scale", "seq_len_q", "seq_len_kv", "block_mask", "page_table_k", "descale_q"] {
        inputs[format!("{role}_tensor_uid")] = Value::Null;
    }
    let node = json!({
        "type": "SdpaAttributes", "compute_data_type": "float", "name": "", "inputs": inputs,
        "outputs": {"o_tensor_uid": 3, "stats_tensor_uid": null},
        "attributes": {"generate_stats": null, "alibi_mask": false, "padding_mask": false, "causal_mask": false,
                       "causal_mask_bottom_right": false, "attn_scale_value": 0.5, "left_bound": -1, "right_bound": 0,
                       "diagonal_alignment": "BOTTOM_RIGHT", "mma_core_mode": "float", "implementation": "AUTO"}
    });
    write_json(
        &format!("{stem}.json"),
        &json!({"nodes": [node], "tensors": [tensor(0, "Q"), tensor(1, "K"), tensor(2, "V"), tensor(3, "O")],
                "io_data_type": "bfloat16", "compute_data_type": "float", "intermediate_data_type": "float", "name": ""}),
    );
    write(&format!("{stem}.meta.json"), METADATA);
    let all = HEADS * LENGTH * WIDTH;
    for uid in 0..3 {
        write(&format!("{stem}.tensor{uid}.bin"), bfloats((0..all).map(|at| short(at + uid))));
    }
    let of = |uid: usize, head: usize, row: usize, column: usize| {
        short(row * HEADS * WIDTH + head * WIDTH + column + uid)
    };
    let o = (0..all).map(|at| {
        let (row, head, column) = (at / (HEADS * WIDTH), at / WIDTH % HEADS, at % WIDTH);
        let score =
            |key: usize| (0..WIDTH).map(|at| of(0, head, row, at) * of(1, head, key, at)).sum::<f64>() * 0.5;
        let weights: Vec<f64> = (0..=row).map(|key| score(key).exp()).collect();
        let terms = weights.iter().enumerate().map(|(key, weight)| weight * of(2, head, key, column));
        terms.sum::<f64>() / weights.iter().sum::<f64>()
    });
    write(&format!("{stem}.tensor3.bin"), bfloats(o));
    stem
}

#[test]
fn attention_of_upstreams_form_is_right_in_its_own_layout() {
    let scratch = Scratch::new("attention-bundle");
    let stem = golden_attention(&scratch);
    let out = succeed(&[
        "check",
        &scratch.file("quick"),
        "--engine",
        "CPU_ENGINE",
        "--against",
        "golden",
        "--json",
    ]);
    assert_eq!((rows(&out).len(), &rows(&out)[0]["verdict"]), (1, &json!("right")), "{out}");
    // A word of an older form is not taken for no word.
    let text = fs::read_to_string(format!("{stem}.json")).unwrap();
    write(&format!("{stem}.json"), text.replacen("\"bfloat16\"", "\"bf16\"", 1));
    let answer = hipdnn(&["check", &format!("{stem}.json")]);
    assert!(
        answer.status == 1 && answer.out.contains("bf16") && answer.out.ends_with("\n1 FAILED\n"),
        "{}",
        answer.out
    );
}

fn rows(out: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(out).unwrap()["rows"].as_array().unwrap().clone()
}

#[test]
fn golden_results_are_compared() {
    let scratch = Scratch::new("golden");
    let stem = golden_batchnorm(&scratch);
    for engine in ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"] {
        let out = succeed(&["check", &scratch.file("quick"), "--engine", engine, "--json"]);
        let rows = rows(&out);
        assert_eq!(
            (rows.len(), &rows[0]["against"], &rows[0]["verdict"]),
            (1, &json!("golden"), &json!("right"))
        );
        assert_eq!(rows[0]["results"][0]["elements"], 96, "{out}");
    }
    let out = succeed(&["check", &format!("{stem}.json"), "--engine", "CPU_ENGINE"]);
    assert!(out.ends_with("\n\n1 right\n"), "{out}");
    // One element, the last one of the image in memory, changes by a thousandth.
    let path = format!("{stem}.tensor5.bin");
    let mut bytes = fs::read(&path).unwrap();
    let last = f32::from_le_bytes(bytes[380..].try_into().unwrap());
    bytes[380..].copy_from_slice(&(last * 1.001).to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let answer = hipdnn(&["check", &scratch.file("quick"), "--engine", "CPU_ENGINE"]);
    assert!(
        answer.out.contains("Y: 96 elements, ") && answer.out.contains(" at [1, 2, 3, 3] ("),
        "{}",
        answer.out
    );
    let line = one_line(answer, 1);
    assert!(
        line.starts_with("hipdnn: 1 of 1 checks failed, first ") && line.ends_with("Small.json: WRONG"),
        "{line}"
    );
    // Golden values may be left aside, or demanded.
    succeed(&["check", &scratch.file("quick"), "--engine", "CPU_ENGINE", "--against", "reference"]);
    fs::remove_file(&path).unwrap();
    succeed(&["check", &scratch.file("quick"), "--engine", "CPU_ENGINE"]);
    let answer = hipdnn(&["check", &scratch.file("quick"), "--engine", "CPU_ENGINE", "--against", "golden"]);
    assert!(answer.status == 1 && answer.out.contains(": there are no golden results\n"), "{}", answer.out);
    write(&format!("{stem}.tensors.dvc"), "outs:\n");
    let answer = hipdnn(&["check", &scratch.file("quick"), "--engine", "CPU_ENGINE", "--against", "golden"]);
    let expected = format!(": there are no golden results; fetch them: dvc pull {stem}.tensors.dvc\n");
    assert!(answer.status == 1 && answer.out.contains(&expected), "{}", answer.out);
}

#[test]
fn an_engines_configuration_replaces_tolerances_and_skips_cases() {
    let scratch = Scratch::new("test-config");
    let stem = golden_batchnorm(&scratch);
    // One element is off by a hundredth.
    let path = format!("{stem}.tensor5.bin");
    let mut bytes = fs::read(&path).unwrap();
    let last = f32::from_le_bytes(bytes[380..].try_into().unwrap());
    bytes[380..].copy_from_slice(&(last + 0.01).to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let config = scratch.file("CPU_ENGINE.toml");
    let check = |entry: &str| {
        fs::write(&config, format!("[meta]\nversion = 1\n{entry}")).unwrap();
        hipdnn(&["check", &scratch.file("quick"), "--engine", "CPU_ENGINE", "--test-config", &config])
    };
    let limits = |filter: &str, atol: &str| {
        format!("[[tolerance_overrides]]\nfilters = [\"{filter}\"]\natol = {atol}\nrtol = 0.0\n")
    };
    let test = "quick_BatchnormFwdInference_nhwc_fp32_Small.Small";
    for (entry, ending) in [
        (String::new(), "\n1 WRONG\n"),
        (limits(test, "0.02"), "\n1 right\n"),
        (limits("quick_*.Small", "0.005"), "\n1 WRONG\n"),
        (limits("*Matmul*", "0.02"), "\n1 WRONG\n"),
        (
            "[[validator_overrides]]\nfilters = [\"*\"]\ntensors = [\"Y\"]\nvalidator = \"rms\"\nrms_threshold = 1e-3\n"
                .to_owned(),
            "\n1 right\n",
        ),
        (
            "[[test_skips]]\nfilters = [\"*Batchnorm*\"]\nreason = \"known\"\n".to_owned(),
            "[arch cpu] known\n1 skipped\n",
        ),
    ] {
        let answer = check(&entry);
        assert!(answer.out.ends_with(ending), "{entry}: {}", answer.out);
    }
    let answer = check("[[tolerances]]\n");
    assert!(one_line(answer, 2).contains("unknown field `tolerances`"));
}

#[test]
fn a_file_of_another_size_is_refused() {
    let scratch = Scratch::new("size");
    let stem = golden_batchnorm(&scratch);
    write(&format!("{stem}.tensor3.bin"), floats([1.0; 4]));
    let answer = hipdnn(&["check", &format!("{stem}.json")]);
    let expected = "Small.tensor3.bin: the file has 16 bytes, expected 12 for tensor scale of float";
    assert!(answer.status == 1 && answer.out.contains(expected), "{}", answer.out);
    fs::remove_file(format!("{stem}.tensor3.bin")).unwrap();
    let answer = hipdnn(&["check", &format!("{stem}.json")]);
    assert!(answer.out.contains("Small.tensor3.bin: the file is missing, but "), "{}", answer.out);
}

#[test]
fn each_case_of_a_sweep_is_checked() {
    let scratch = Scratch::new("sweep");
    let folder = sweep(&scratch);
    let answer = hipdnn(&["check", &folder, "--engine", "CPU_ENGINE", "--json"]);
    let rows = rows(&answer.out);
    let of = |row: &Value| [&row["case"], &row["verdict"], &row["against"]].map(Clone::clone);
    let expected = [
        [json!("1_3_4_4_nchw"), json!("right"), json!("golden")],
        [json!("1_3_4_4_packed"), json!("right"), json!("CPU_REFERENCE_ENGINE")],
        [json!("no_strides"), json!("failed"), Value::Null],
    ];
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), expected, "{}", answer.out);
    assert_eq!(rows[0]["results"][0]["elements"], 48, "{}", answer.out);
    let reason = rows[2]["reason"].as_str().unwrap();
    assert!(reason.ends_with("sweep.json: a case has no value for ${case.strides} of tensor 2"), "{reason}");
    assert_eq!(answer.status, 1);
}

#[test]
fn an_engine_that_computes_nothing_is_wrong() {
    let scratch = Scratch::new("useless-bundle");
    golden_batchnorm(&scratch);
    let answer = with_useless_engine(&scratch, &["check", &scratch.file("quick"), "--engine", "STUB_ENGINE"]);
    assert!(answer.status == 1 && answer.out.ends_with("\n1 WRONG\n"), "{}", answer.out);
    let answer =
        with_useless_engine(&scratch, &["claims", &scratch.file("quick"), "--engine", "STUB_ENGINE"]);
    let expected = "hipdnn: STUB_ENGINE: the architecture of its device is not known here";
    assert_eq!(one_line(answer, 1), expected);
}

#[test]
fn a_bundle_says_how_far_it_is_checked() {
    let scratch = Scratch::new("levels");
    let stem = golden_batchnorm(&scratch);
    let check = |key: &str, value: Value| {
        let mut metadata: Value = serde_json::from_str(METADATA).unwrap();
        metadata[key] = value;
        write_json(&format!("{stem}.meta.json"), &metadata);
        hipdnn(&["check", &format!("{stem}.json"), "--engine", "CPU_ENGINE"])
    };
    assert!(check("enforcement_level", json!("applicability")).out.ends_with("\n1 accepted\n"));
    assert!(check("enforcement_level", json!("buildable")).out.ends_with("\n1 built\n"));
    let answer = check("gpu_architecture", json!("gfx942"));
    assert!(answer.out.contains(": its values are those of gfx942, this is cpu\n"), "{}", answer.out);
    assert_eq!(one_line(answer, 1), "hipdnn: nothing was checked");
    let answer = check("enforcement_level", json!("ful"));
    let expected =
        "Small.meta.json: \"enforcement_level\" is \"ful\", expected applicability, buildable or full";
    assert!(answer.status == 1 && answer.out.contains(expected), "{}", answer.out);
}

/// The claims for this bundle in AMD's tree, in the form that its tool writes.
const UPSTREAM: &str = r#"{
  "claims": {
    "MIOPEN_ENGINE": {
      "gfx1151": [
        "linux",
        "windows"
      ],
      "gfx90a": [
        "linux"
      ]
    }
  },
  "version": 1
}
"#;

/// The same with a claim of this machine's CPU.
fn with_ours() -> String {
    let ours =
        "{\n  \"claims\": {\n    \"CPU_ENGINE\": {\n      \"cpu\": [\n        \"linux\"\n      ]\n    },\n";
    UPSTREAM.replacen("{\n  \"claims\": {\n", ours, 1)
}

#[test]
fn claims_are_added_beside_those_of_others() {
    let scratch = Scratch::new("claims");
    let stem = golden_batchnorm(&scratch);
    let (folder, path) = (scratch.file("quick"), format!("{stem}.support.json"));
    let out = succeed(&["claims", &folder]);
    assert!(out.ends_with("\ngraphs without a file for claims: 1\n") && out.contains("unclaimed"), "{out}");
    write(&path, UPSTREAM);
    let out = succeed(&["claims", &folder, "--write"]);
    assert!(out.contains("CPU_ENGINE  cpu           linux     written\n"), "{out}");
    assert_eq!(fs::read_to_string(&path).unwrap(), with_ours());
    let out = succeed(&["claims", &folder, "--write", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["written"], json!([]), "{out}");
    assert_eq!(rows(&succeed(&["claims", &folder, "--json"]))[0]["verdict"], "kept");
    // The file is neither a graph nor in the way of one.
    succeed(&["check", &folder, "--engine", "CPU_ENGINE", "--against", "golden"]);
    write(&path, with_ours().replace("  ", " "));
    let answer = hipdnn(&["claims", &folder]);
    assert!(answer.out.contains(": not in the form that is written: "), "{}", answer.out);
    assert_eq!(one_line(answer, 1), "hipdnn: wrong files: 1");
    succeed(&["claims", &folder, "--write"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), with_ours());
}

#[test]
fn a_claim_that_does_not_hold_is_broken() {
    let scratch = Scratch::new("broken");
    let stem = golden_batchnorm(&scratch);
    let mut graph = batchnorm();
    // The channels do not fit.
    graph["tensors"][1]["dims"][1] = json!(2);
    write_json(&format!("{stem}.json"), &graph);
    write(&format!("{stem}.support.json"), with_ours());
    let answer = hipdnn(&["claims", &scratch.file("quick")]);
    assert!(
        answer.out.contains("BROKEN") && answer.out.contains("Small.json: CPU_ENGINE: "),
        "{}",
        answer.out
    );
    assert_eq!(one_line(answer, 1), "hipdnn: broken claims: 1");
    for engine in [&["--engine", "CPU_ENGINE"][..], &[]] {
        let answer = hipdnn(&[&["check", &scratch.file("quick")], engine].concat());
        assert!(answer.status == 1 && answer.out.ends_with("\n1 BROKEN CLAIM\n"), "{}", answer.out);
    }
    // What is not claimed is only declined.
    write(&format!("{stem}.support.json"), UPSTREAM);
    let answer = hipdnn(&["check", &scratch.file("quick"), "--engine", "CPU_ENGINE"]);
    assert!(answer.out.ends_with("\n1 declined\n"), "{}", answer.out);
    assert_eq!(one_line(answer, 1), "hipdnn: nothing was checked");
}

#[test]
fn claims_of_a_sweep_are_by_cases() {
    let scratch = Scratch::new("sweep-claims");
    let folder = sweep(&scratch);
    let path = format!("{folder}/support.json");
    // A case that cannot be read is wrong, the others are claimed all the same.
    let answer = hipdnn(&["claims", &folder, "--engine", "CPU_ENGINE", "--write"]);
    assert!(answer.status == 1 && answer.out.contains("${case.strides} of tensor 2"), "{}", answer.out);
    let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let group = json!({"cases": ["1_3_4_4_nchw", "1_3_4_4_packed"], "support": {"cpu": ["linux"]}});
    assert_eq!(written, json!({"version": 1, "claims": {"CPU_ENGINE": [group]}}));
    write(&path, fs::read_to_string(&path).unwrap().replace("1_3_4_4_packed", "another"));
    let answer = hipdnn(&["claims", &folder]);
    let expected = "support.json: \"cases\" is \"another\", expected the id of a case of sweep.json";
    assert!(answer.status == 1 && answer.out.contains(expected), "{}", answer.out);
    fs::remove_file(format!("{folder}/sweep.json")).unwrap();
    golden_batchnorm(&scratch);
    let answer = hipdnn(&["claims", &scratch.file("quick")]);
    assert!(
        answer.status == 1 && answer.out.contains("support.json: there is no graph beside it"),
        "{}",
        answer.out
    );
}

#[test]
fn links_between_folders_end() {
    let scratch = Scratch::new("links");
    golden_batchnorm(&scratch);
    for name in ["one", "two"] {
        let made = Command::new("ln")
            .arg("-s")
            .args([scratch.file("quick"), scratch.file(&format!("quick/{name}"))])
            .status();
        assert!(made.unwrap().success());
    }
    let out = succeed(&["check", &scratch.file("quick"), "--engine", "CPU_ENGINE", "--json"]);
    assert_eq!(rows(&out).len(), 1, "{out}");
}

#[test]
fn nothing_to_check_is_bad_input() {
    let scratch = Scratch::new("nothing");
    write(&scratch.file("empty/readme.md"), "");
    for command in ["check", "claims"] {
        let line = refuse(&[command, &scratch.file("empty")], 2);
        let expected =
            "hipdnn: no file is a graph, expected {Name}.json, or graph.template.json and sweep.json";
        assert_eq!(line, expected);
        assert!(refuse(&[command, &scratch.file("gone")], 2).ends_with("there is no such file or folder"));
    }
}
