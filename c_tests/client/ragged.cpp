/* SPDX-License-Identifier: MIT */

/*
 * Consecutive sequences of different lengths: attention with ragged offsets, compared with an attention of each sequence alone, by
 * the same engine and by plain loops. Nothing outside of the sequences is written.
 */
#include "plain.hpp"

namespace client
{

namespace
{

constexpr int64_t HEADS = 3;
constexpr int64_t WIDTH = 8;
/* The longest sequence that there is room for. */
constexpr int64_t MOST = 7;
/* Elements of a token: all heads of it lie side by side. */
constexpr int64_t TOKEN = HEADS * WIDTH;

enum Uid : int64_t { Q, K, V, O, Q_OFFSETS, KV_OFFSETS, Q_LENGTHS, KV_LENGTHS, STATS, STATS_OFFSETS, SCALE };

/* How the offsets are written down. */
struct Form
{
    const char* name;
    hipdnnDataType_t type;
    /* What each offset is multiplied by. */
    int64_t unit;
    bool causal;
};

/* Lengths of sequences, and room between and behind them. */
struct Batch
{
    std::vector<int32_t> lengths;
    int64_t gap;

    int64_t sequences() const { return static_cast<int64_t>(lengths.size()); }

    /* The token that each sequence begins at, and the end of the last. */
    std::vector<int64_t> starts() const
    {
        std::vector<int64_t> all = {0};
        for (const int32_t length : lengths)
        {
            all.push_back(all.back() + length + gap);
        }
        return all;
    }

    size_t tokens() const { return static_cast<size_t>(starts().back() + MOST); }
};

/* Offsets in the type and the unit of a form. */
class Offsets
{
public:
    Offsets(const Form& form, const Batch& batch, int64_t of_token)
    {
        for (const int64_t start : batch.starts())
        {
            const int64_t offset = start * of_token / form.unit;
            _wide.push_back(offset);
            _narrow.push_back(static_cast<int32_t>(offset));
        }
        _is_wide = form.type == HIPDNN_DATA_INT64;
    }

    void* pointer() { return _is_wide ? static_cast<void*>(_wide.data()) : _narrow.data(); }

private:
    std::vector<int64_t> _wide;
    std::vector<int32_t> _narrow;
    bool _is_wide = false;
};

struct Problem
{
    Form form;
    Batch q_batch, kv_batch;
    std::vector<float> q, k, v;
    float scale = 0.375F;

    Problem(const Form& of, Batch queries, Batch keys)
        : form(of), q_batch(std::move(queries)), kv_batch(std::move(keys)), q(numbers(q_batch.tokens() * TOKEN, 1)),
          k(numbers(kv_batch.tokens() * TOKEN, 2)), v(numbers(kv_batch.tokens() * TOKEN, 3))
    {
    }

    Descriptor graph(const Session& session) const
    {
        const int64_t sequences = q_batch.sequences();
        const Dims dims = {sequences, HEADS, MOST, WIDTH};
        const Dims strides = {MOST * TOKEN, WIDTH, TOKEN, 1};
        const Tensor q_offsets(Q_OFFSETS, {sequences + 1, 1, 1, 1}, form.type);
        const Tensor kv_offsets(KV_OFFSETS, {sequences + 1, 1, 1, 1}, form.type);
        const auto ragged = [&](int64_t uid, const Tensor& offsets) {
            return Tensor(uid, dims).with_strides(strides).ragged(offsets, form.unit);
        };
        Attention attention{ragged(Q, q_offsets), ragged(K, kv_offsets), ragged(V, kv_offsets), ragged(O, q_offsets)};
        attention.q_lengths = Tensor(Q_LENGTHS, {sequences, 1, 1, 1}, HIPDNN_DATA_INT32);
        attention.kv_lengths = Tensor(KV_LENGTHS, {sequences, 1, 1, 1}, HIPDNN_DATA_INT32);
        attention.scale = Tensor(SCALE, {1}).constant(scale);
        /* Statistics are a number for each head of each token, so their offsets are others. */
        attention.stats = Tensor(STATS, {sequences, HEADS, MOST, 1})
                              .with_strides({MOST * HEADS, 1, HEADS, 1})
                              .ragged(Tensor(STATS_OFFSETS, {sequences + 1, 1, 1, 1}, HIPDNN_DATA_INT32));
        attention.causal = form.causal;
        GraphMaker maker(session);
        add_attention(maker, attention);
        return maker.finish("ragged");
    }

    /* A sequence alone, with the same strides. */
    Descriptor graph_of_one(const Session& session, int64_t queries, int64_t keys) const
    {
        const auto tensor = [](int64_t uid, int64_t length) {
            return Tensor(uid, {1, HEADS, length, WIDTH}).with_strides({length * TOKEN, WIDTH, TOKEN, 1});
        };
        Attention attention{tensor(Q, queries), tensor(K, keys), tensor(V, keys), tensor(O, queries)};
        attention.scale = Tensor(SCALE, {1}).constant(scale);
        attention.stats = Tensor(STATS, {1, HEADS, queries, 1}).with_strides({queries * HEADS, 1, HEADS, 1});
        attention.causal = form.causal;
        GraphMaker maker(session);
        add_attention(maker, attention);
        return maker.finish("one sequence");
    }
};

/* The values [head][token][width] as they lie in memory: [token][head][width]. */
std::vector<float> by_token(const std::vector<float>& values, int64_t tokens, int64_t width)
{
    std::vector<float> all;
    for (int64_t at = 0; at < tokens * HEADS * width; at++)
    {
        const int64_t token = at / width / HEADS;
        const int64_t head = at / width % HEADS;
        all.push_back(values[static_cast<size_t>((head * tokens + token) * width + at % width)]);
    }
    return all;
}

void run_problem(const Session& session, Problem& problem, int64_t engine)
{
    const std::string name = name_of(session, engine) + ", ragged attention with offsets of " + problem.form.name;
    const Descriptor graph = problem.graph(session);
    const Descriptor plan = plan_of(session, graph, engine);
    Offsets q_offsets(problem.form, problem.q_batch, TOKEN);
    Offsets kv_offsets(problem.form, problem.kv_batch, TOKEN);
    Offsets stats_offsets({"statistics", HIPDNN_DATA_INT32, 1, false}, problem.q_batch, HEADS);
    std::vector<float> o(problem.q.size(), UNTOUCHED);
    std::vector<float> stats(problem.q_batch.tokens() * HEADS, UNTOUCHED);
    run(session, plan,
        {{Q, problem.q.data()},
         {K, problem.k.data()},
         {V, problem.v.data()},
         {O, o.data()},
         {Q_OFFSETS, q_offsets.pointer()},
         {KV_OFFSETS, kv_offsets.pointer()},
         {Q_LENGTHS, problem.q_batch.lengths.data()},
         {KV_LENGTHS, problem.kv_batch.lengths.data()},
         {STATS, stats.data()},
         {STATS_OFFSETS, stats_offsets.pointer()}});

    std::vector<float> want(o.size(), UNTOUCHED);
    std::vector<float> want_stats(stats.size(), UNTOUCHED);
    for (size_t i = 0; i < problem.q_batch.lengths.size(); i++)
    {
        const int64_t queries = problem.q_batch.lengths[i];
        const int64_t keys = problem.kv_batch.lengths[i];
        if (queries == 0)
        {
            continue;
        }
        const int64_t q_start = problem.q_batch.starts()[i];
        const int64_t kv_start = problem.kv_batch.starts()[i];
        float* const q = problem.q.data() + q_start * TOKEN;
        float* const k = problem.k.data() + kv_start * TOKEN;
        float* const v = problem.v.data() + kv_start * TOKEN;
        std::vector<float> part(static_cast<size_t>(queries * TOKEN), UNTOUCHED);
        std::vector<float> part_stats(static_cast<size_t>(queries * HEADS), UNTOUCHED);
        run(session, plan_of(session, problem.graph_of_one(session, queries, keys), engine),
            {{Q, q}, {K, k}, {V, v}, {O, part.data()}, {STATS, part_stats.data()}});
        const OneAttention plain{HEADS, queries, keys, WIDTH, static_cast<double>(problem.scale), problem.form.causal};
        std::vector<float> logarithms;
        const auto values = plain.compute({q, WIDTH, TOKEN}, {k, WIDTH, TOKEN}, {v, WIDTH, TOKEN}, &logarithms);
        compare(part, by_token(values, queries, WIDTH), 1e-5F, name + ", one sequence");
        compare(part_stats, by_token(logarithms, queries, 1), 1e-5F, name + ", statistics of one sequence");
        std::copy(part.begin(), part.end(), want.begin() + q_start * TOKEN);
        std::copy(part_stats.begin(), part_stats.end(), want_stats.begin() + q_start * HEADS);
    }
    compare(o, want, 2e-6F, name);
    compare(stats, want_stats, 2e-6F, name + ", statistics");

    /* Decreasing offsets are refused when they are read, and nothing is written. */
    std::vector<int32_t> falling(problem.q_batch.lengths.size() + 1, 0);
    std::vector<int64_t> falling_wide(falling.size(), 0);
    falling[1] = 1 << 20;
    falling_wide[1] = 1 << 20;
    std::fill(o.begin(), o.end(), UNTOUCHED);
    const bool is_wide = problem.form.type == HIPDNN_DATA_INT64;
    require_failure(
        [&] {
            run(session, plan,
                {{Q, problem.q.data()},
                 {K, problem.k.data()},
                 {V, problem.v.data()},
                 {O, o.data()},
                 {Q_OFFSETS, is_wide ? static_cast<void*>(falling_wide.data()) : falling.data()},
                 {KV_OFFSETS, kv_offsets.pointer()},
                 {Q_LENGTHS, problem.q_batch.lengths.data()},
                 {KV_LENGTHS, problem.kv_batch.lengths.data()},
                 {STATS, stats.data()},
                 {STATS_OFFSETS, stats_offsets.pointer()}});
        },
        {"hipdnnBackendExecute"}, name + ", offsets that fall");
    require(o == std::vector<float>(o.size(), UNTOUCHED), name + ": offsets that fall, and something was written");
}

} // namespace

void run_ragged(const Library& library)
{
    const Session session(library);
    const Form forms[] = {
        {"int32", HIPDNN_DATA_INT32, 1, false},
        {"int64", HIPDNN_DATA_INT64, 1, true},
        {"int32 in tokens", HIPDNN_DATA_INT32, TOKEN, true},
    };
    const std::pair<Batch, Batch> batches[] = {
        {{{2, 5, 3}, 0}, {{3, 5, 4}, 0}},
        {{{7, 1, 4, 2}, 2}, {{7, 6, 1, 2}, 1}},
        {{{0, 3}, 0}, {{1, 3}, 0}},
    };
    for (const auto& form : forms)
    {
        for (const auto& batch : batches)
        {
            Problem problem(form, batch.first, batch.second);
            for (const int64_t engine : both_engines(session, problem.graph(session)))
            {
                run_problem(session, problem, engine);
            }
        }
    }
}

} // namespace client
