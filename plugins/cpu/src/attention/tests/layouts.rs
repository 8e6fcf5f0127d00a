//! Dropout, and sequences with irregular layouts: ragged, paged or packed.

use super::*;

/// The tensors with a row per query, and those with a row per key, with their gradients.
const OF_QUERIES: [i64; 7] = [1, 4, 10, 11, 12, 20, 21];
const OF_KEYS: [i64; 4] = [2, 3, 22, 23];

impl Case {
    /// Adds dropout of probabilities, by a mask or by the generator.
    pub(super) fn drop(&mut self, random: &mut Random, operation: &mut Sdpa, scores: [i64; 4]) {
        match random.within(0, 5) {
            0 => {
                (operation.dropout_mask, operation.dropout_scale) = (Some(14), Some(15));
                let dims = scores.map(|dim| random.of(&[1, dim, dim]));
                let data_type = random.of(&[DataType::Float, DataType::Half]);
                self.add(random, 14, data_type, &dims);
                let mask = self.arrays.pop().unwrap();
                self.arrays.push(mask.filled(|| random.of(&[0.0, 1.0, 1.0])));
                self.arrays.push(Array::new(15, DataType::Float, &[1], &[1]).filled(|| 1.5));
            }
            1 => {
                operation.dropout_probability = Some(random.of(&[0.0, 0.25, 0.4, 1.0]));
                (operation.seed, operation.offset) = (Some(16), Some(17));
                let data_type = random.of(&[DataType::Int32, DataType::Int64]);
                for uid in [16, 17] {
                    let number = random.within(0, 1 << 30) as f64;
                    self.arrays.push(Array::new(uid, data_type, &[1], &[1]).filled(|| number));
                }
            }
            _ => {}
        }
    }

    fn array(&mut self, uid: i64) -> Option<&mut Array> {
        self.arrays.iter_mut().find(|array| array.tensor.uid == uid)
    }

    fn lengths(&self, uid: i64) -> Vec<i64> {
        let array = self.arrays.iter().find(|array| array.tensor.uid == uid).unwrap();
        array.values().into_iter().map(|length| length as i64).collect()
    }

    /// If lengths are given, sometimes changes the layout of sequences.
    pub(super) fn vary_layout(&mut self, random: &mut Random) {
        if !self.operation.padding_mask {
            return;
        }
        match random.within(0, 3) {
            0 => {
                let which = random.within(1, 3);
                self.be_ragged(random, which);
            }
            1 => self.be_paged(random),
            _ => {}
        }
    }

    /// Makes the sequences of queries (1), of keys (2) or of both contiguous.
    fn be_ragged(&mut self, random: &mut Random, which: usize) {
        for (bit, uids, lengths, offsets) in [(1, &OF_QUERIES[..], 7, 18), (2, &OF_KEYS[..], 8, 19)] {
            if which & bit == 0 {
                continue;
            }
            let mut starts = vec![0];
            for length in self.lengths(lengths) {
                starts.push(starts.last().unwrap() + length);
            }
            let data_type = random.of(&[DataType::Int32, DataType::Int64]);
            let mut starts = starts.into_iter();
            let count = starts.len() as i64;
            let array = Array::new(offsets, data_type, &[count, 1, 1, 1], &[1; 4]);
            self.arrays.push(array.filled(|| starts.next().unwrap() as f64));
            for uid in uids {
                self.ragged_by(random, *uid, offsets);
            }
        }
    }

    /// Lays out a tensor token by token, with offsets in tokens.
    fn ragged_by(&mut self, random: &mut Random, uid: i64, offsets: i64) {
        let Some(array) = self.array(uid) else { return };
        let dims = array.tensor.dims.clone();
        let mut new = Array::new(uid, array.tensor.data_type, &dims, &strides(&dims, &order_of_tokens(), 0));
        new.tensor.ragged_offset_uid = Some(offsets);
        new.tensor.ragged_offset_multiplier = dims[1] * dims[3];
        *array = new.filled(|| random.real() / 2.0);
    }

    /// Makes the gradients and their operands as ragged as the forward tensors.
    pub(super) fn as_ragged_as_before(&mut self, random: &mut Random) {
        for (uids, offsets) in [([20, 21], 18), ([22, 23], 19)] {
            if self.array(offsets).is_some() {
                uids.into_iter().for_each(|uid| self.ragged_by(random, uid, offsets));
            }
        }
    }

    /// Puts keys and values into pages, and sometimes packs the queries.
    fn be_paged(&mut self, random: &mut Random) {
        let batch = self.arrays[0].tensor.dims[0];
        let keys = self.arrays[1].tensor.dims[2];
        self.operation.max_seq_len_kv = Some(keys as i32);
        for (uid, table) in [(2, 18), (3, 19)] {
            let block = random.of(&[1, 2, 3, 8, 50]);
            let (blocks, pages) = ((keys + block - 1) / block, random.within(1, 9) as i64);
            let array = self.array(uid).unwrap();
            let dims = [pages, array.tensor.dims[1], block, array.tensor.dims[3]];
            let data_type = array.tensor.data_type;
            self.add(random, uid, data_type, &dims);
            let array = self.arrays.pop().unwrap();
            *self.array(uid).unwrap() = array;
            let table = Array::new(table, DataType::Int32, &[batch, 1, blocks, 1], &[blocks, blocks, 1, 1]);
            self.arrays.push(table.filled(|| random.within(0, pages as usize - 1) as f64));
        }
        (self.operation.page_table_k, self.operation.page_table_v) = (Some(18), Some(19));
        let is_dense = self.operation.attn_mask.is_some() || self.operation.dropout_mask.is_some();
        if batch > 1 && !is_dense && random.within(0, 1) == 0 {
            self.be_packed(random);
        }
    }

    fn be_packed(&mut self, random: &mut Random) {
        let mut left = self.arrays[0].tensor.dims[2] as usize;
        let lengths = self.array(7).unwrap().clone();
        *self.array(7).unwrap() = lengths.filled(|| {
            let length = random.within(0, left);
            left -= length;
            length as f64
        });
        for uid in OF_QUERIES {
            let Some(array) = self.array(uid) else { continue };
            let (mut dims, data_type) = (array.tensor.dims.clone(), array.tensor.data_type);
            dims[0] = 1;
            self.add(random, uid, data_type, &dims);
            let array = self.arrays.pop().unwrap();
            *self.array(uid).unwrap() = array;
        }
    }
}

fn order_of_tokens() -> Vec<usize> {
    vec![0, 2, 1, 3]
}
