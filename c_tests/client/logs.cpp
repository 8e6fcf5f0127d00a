/* SPDX-License-Identifier: MIT */

/*
 * Log callbacks of both kinds: the lines they receive at each level, on which thread, and none once they are removed. Meanwhile
 * several threads make and execute plans with unchanged results.
 */
#include "plain.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace client
{

namespace
{

/* The lines that a callback was given. */
class Lines
{
public:
    static void keep(hipdnnUserLogCallbackHandle_t to, hipdnnSeverity_t severity, const char* line)
    {
        static_cast<Lines*>(to)->add(severity, line);
    }

    size_t count(const std::string& text) const
    {
        const std::lock_guard<std::mutex> guard(_lock);
        return static_cast<size_t>(std::count_if(
            _lines.begin(), _lines.end(), [&](const Line& line) { return line.text.find(text) != std::string::npos; }));
    }

    /* The places of lines with a text that ends in a number, and whether these numbers rise. */
    bool rise(const std::string& text) const
    {
        const std::lock_guard<std::mutex> guard(_lock);
        int last = -1;
        for (const auto& line : _lines)
        {
            const size_t at = line.text.find(text);
            if (at != std::string::npos)
            {
                const int number = std::atoi(line.text.c_str() + at + text.size());
                if (number <= last)
                {
                    return false;
                }
                last = number;
            }
        }
        return true;
    }

    bool has_only(hipdnnSeverity_t least) const
    {
        const std::lock_guard<std::mutex> guard(_lock);
        return std::all_of(_lines.begin(), _lines.end(), [&](const Line& line) { return line.severity >= least; });
    }

    /* Whether all lines with a text came on this thread, or none did. */
    bool here(const std::string& text, bool wanted) const
    {
        const std::lock_guard<std::mutex> guard(_lock);
        return std::all_of(_lines.begin(), _lines.end(), [&](const Line& line) {
            return line.text.find(text) == std::string::npos || (line.thread == std::this_thread::get_id()) == wanted;
        });
    }

    /* Waits for lines that another thread delivers. */
    bool wait_for(const std::string& text, size_t wanted) const
    {
        for (int i = 0; i < 10000; i++)
        {
            if (count(text) >= wanted)
            {
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    }

    void forget()
    {
        const std::lock_guard<std::mutex> guard(_lock);
        _lines.clear();
    }

    /* Called with each line, where it is set. */
    std::function<void()> on_line;

private:
    struct Line
    {
        hipdnnSeverity_t severity;
        std::string text;
        std::thread::id thread;
    };

    mutable std::mutex _lock;
    std::vector<Line> _lines;

    void add(hipdnnSeverity_t severity, const char* line)
    {
        {
            const std::lock_guard<std::mutex> guard(_lock);
            _lines.push_back({severity, line, std::this_thread::get_id()});
        }
        if (on_line)
        {
            on_line();
        }
    }
};

void keep_as_well(hipdnnUserLogCallbackHandle_t to, hipdnnSeverity_t severity, const char* line)
{
    Lines::keep(to, severity, line);
}

/* A callback that is set, and removed in the end. */
class Registration
{
public:
    Registration(const Session& session, Lines& lines, hipdnnSeverity_t level, hipdnnLogCallbackMode_t mode,
                 hipdnnUserLogCallback_t callback = Lines::keep)
        : _session(session), _lines(lines), _callback(callback)
    {
        set(level, mode);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration()
    {
        if (!_removed)
        {
            _session.library.hipdnnSetUserLogCallback_ext(_callback, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, &_lines);
        }
    }

    void set(hipdnnSeverity_t level, hipdnnLogCallbackMode_t mode)
    {
        CLIENT_CHECK(_session, hipdnnSetUserLogCallback_ext, _callback, level, mode, &_lines);
        _mode = mode;
    }

    void remove()
    {
        set(HIPDNN_SEV_OFF, _mode);
        _removed = true;
    }

private:
    const Session& _session;
    Lines& _lines;
    hipdnnUserLogCallback_t _callback;
    hipdnnLogCallbackMode_t _mode = HIPDNN_LOG_CALLBACK_SYNC;
    bool _removed = false;
};

void set_level(const Session& session, hipdnnSeverity_t level)
{
    CLIENT_CHECK(session, hipdnnBackendSetGlobalLogLevel_ext, level);
    hipdnnSeverity_t read = HIPDNN_SEV_FATAL;
    CLIENT_CHECK(session, hipdnnBackendGetGlobalLogLevel_ext, &read);
    require(read == level, "the level of the log is another one");
}

void say(const Session& session, hipdnnSeverity_t severity, const std::string& line)
{
    CLIENT_CHECK(session, hipdnnLoggingCallback_ext, severity, line.c_str());
}

/* Plans are made and executed, by every engine. */
void compute(const Session& session)
{
    Layer layer({1, 3, 5, 5});
    const Descriptor graph = layer.graph(session);
    for (const int64_t engine : both_engines(session, graph))
    {
        auto y = layer.empty();
        run(session, plan_of(session, graph, engine), layer.bindings(y));
        compare(y, layer.result(), 1e-5F, name_of(session, engine) + ", while lines are logged");
    }
}

void run_mode(const Session& session, hipdnnLogCallbackMode_t mode)
{
    const std::string kind = mode == HIPDNN_LOG_CALLBACK_SYNC ? "sync" : "async";
    const bool here = mode == HIPDNN_LOG_CALLBACK_SYNC;
    Lines lines;
    Lines others;
    set_level(session, HIPDNN_SEV_INFO);
    Registration first(session, lines, HIPDNN_SEV_INFO, mode);
    Registration second(session, others, HIPDNN_SEV_ERROR, mode);
    Registration third(session, others, HIPDNN_SEV_WARN, mode, keep_as_well);

    /* Every call with its result. */
    compute(session);
    require(lines.wait_for("hipdnnBackendExecute", 2), kind + ": executions are not in the log");
    require_failure([&] { engine_by_id(session, Layer({1, 3, 5, 5}).graph(session), 12345); },
                    {"hipdnnBackendFinalize"}, kind);
    require(others.wait_for("hipdnnBackendFinalize", 1), kind + ": a failure is not in the log");

    /* Each callback has its own level, and the order is kept. */
    others.forget();
    for (int i = 0; i < 100; i++)
    {
        say(session, HIPDNN_SEV_INFO, "numbered " + std::to_string(i));
    }
    say(session, HIPDNN_SEV_WARN, "a warning of " + kind);
    say(session, HIPDNN_SEV_ERROR, "an error of " + kind);
    require(lines.wait_for("an error of " + kind, 1) && others.wait_for("an error of " + kind, 2),
            kind + ": an error is lost");
    require(lines.count("numbered ") == 100 && lines.rise("numbered "), kind + ": lines are lost or out of order");
    require(others.wait_for("a warning of " + kind, 1) && others.count("a warning of " + kind) == 1,
            kind + ": a warning came to a callback for errors");
    require(others.has_only(HIPDNN_SEV_WARN), kind + ": less severe lines came");
    require(lines.here("numbered ", here), kind + ": lines came on another thread than they should");

    /* The same callback and pointer again change the level; the log's level counts for all. */
    lines.forget();
    first.set(HIPDNN_SEV_ERROR, mode);
    say(session, HIPDNN_SEV_WARN, "too low for the callback");
    set_level(session, HIPDNN_SEV_FATAL);
    say(session, HIPDNN_SEV_ERROR, "too low for the log");
    say(session, HIPDNN_SEV_FATAL, "severe enough");
    set_level(session, HIPDNN_SEV_OFF);
    say(session, HIPDNN_SEV_FATAL, "while the log is off");
    require(lines.wait_for("severe enough", 1), kind + ": a fatal line is lost");
    require(lines.count("too low") == 0 && lines.count("while the log") == 0, kind + ": lines below the level came");

    /* Removing one keeps the others. */
    set_level(session, HIPDNN_SEV_INFO);
    first.remove();
    lines.forget();
    say(session, HIPDNN_SEV_FATAL, "after the removal of " + kind);
    require(others.wait_for("after the removal of " + kind, 2), kind + ": the others were removed as well");
    require(lines.count("") == 0, kind + ": a line came after the removal");
    require_failure([&] { Registration(session, lines, HIPDNN_SEV_OFF, mode); }, {"hipdnnSetUserLogCallback_ext"},
                    kind + ": removed twice");
    set_level(session, HIPDNN_SEV_OFF);
}

/* Callbacks that call the library, with every line and from several threads; and callbacks that come and go meanwhile. */
void run_busy(const Session& session, hipdnnLogCallbackMode_t mode)
{
    Lines lines;
    std::atomic<int> calls{0};
    lines.on_line = [&] {
        hipdnnSeverity_t level = HIPDNN_SEV_OFF;
        require(session.library.hipdnnBackendGetGlobalLogLevel_ext(&level) == Result::Success,
                "a call from a callback");
        calls++;
    };
    set_level(session, HIPDNN_SEV_INFO);
    std::vector<std::string> failures(4);
    {
        Registration registration(session, lines, HIPDNN_SEV_INFO, mode);
        std::vector<std::thread> threads;
        for (size_t i = 0; i < failures.size(); i++)
        {
            threads.emplace_back([&, i] {
                try
                {
                    for (int round = 0; round < 5; round++)
                    {
                        Lines passing;
                        Registration also(session, passing, HIPDNN_SEV_INFO, mode);
                        compute(session);
                        say(session, HIPDNN_SEV_WARN, "round of a thread");
                        also.remove();
                        const size_t before = passing.count("");
                        say(session, HIPDNN_SEV_WARN, "after a round");
                        require(passing.count("") == before, "a line came after the removal");
                    }
                } catch (const std::exception& error)
                {
                    failures[i] = error.what();
                }
            });
        }
        for (auto& thread : threads)
        {
            thread.join();
        }
        require(lines.wait_for("round of a thread", failures.size() * 5), "lines of threads are lost");
    }
    for (const auto& failure : failures)
    {
        require(failure.empty(), failure);
    }
    set_level(session, HIPDNN_SEV_OFF);
    require(calls > 0, "no callback called the library");
}

/* Why no engine runs a graph is in the log as well as in the last error. */
void run_reasons(const Session& session)
{
    Lines lines;
    set_level(session, HIPDNN_SEV_INFO);
    Registration registration(session, lines, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC);
    GraphMaker maker(session);
    add_matmul(maker, Tensor(0, {1, 2, 3}), Tensor(1, {1, 4, 5}), Tensor(2, {1, 2, 5}));
    const Descriptor graph = maker.finish("shapes that do not agree");
    require(engines_for(session, graph).empty(), "an engine multiplies matrices that do not fit");
    require(lines.count("CPU_ENGINE") > 0, "the log does not say why an engine does not apply");
    set_level(session, HIPDNN_SEV_OFF);
}

} // namespace

void run_logs(const Library& library)
{
    const Session session(library);
    for (const auto mode : {HIPDNN_LOG_CALLBACK_SYNC, HIPDNN_LOG_CALLBACK_ASYNC})
    {
        run_mode(session, mode);
        run_busy(session, mode);
    }
    run_reasons(session);
}

} // namespace client
