/* SPDX-License-Identifier: MIT */

/*
 * The threads of variants with THREAD, in C++: they log without pause from before the library is loaded until its static
 * destructor stops and joins them, as the thread of an asynchronous logger does. HIPDNN_STUB_THREADS says how many.
 *
 * With HIPDNN_STUB_HOOK set, the function of the test's at that address is called from the constructor, the destructor and
 * the threads.
 */

#include "stub.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>
#include <vector>

namespace {
class threads {
public:
    threads() : callback(host_log()), hook(find_hook())
    {
        call_back("constructor");
        const char* const count = std::getenv("HIPDNN_STUB_THREADS");
        const int wanted = count == nullptr ? 1 : std::atoi(count);
        for (int i = 0; i < wanted; i++) {
            running.emplace_back([this] {
                /* Once more after it is to stop: on a busy machine it may not have run since the destructor began. */
                for (bool is_last = false; !is_last;) {
                    is_last = stop;
                    log("stub: a line of a thread");
                    call_back("thread");
                }
            });
        }
    }

    ~threads()
    {
        call_back("destructor");
        log("stub: a line of the destructor");
        /* One that has not logged before has everything still to do that a thread does once. */
        std::thread([this] { log("stub: a line of a late thread"); }).join();
        stop = true;
        for (std::thread& thread : running) {
            thread.join();
        }
    }

    void set_callback(hipdnnCallback_t function) { callback = function; }

private:
    using hook_t = void (*)(const char*);

    /* Before the host sets a callback, and if it never does: the host's exported function. */
    static hipdnnCallback_t host_log()
    {
        void* const found = dlsym(RTLD_DEFAULT, "hipdnnLoggingCallback_ext");
        hipdnnCallback_t function = nullptr;
        std::memcpy(&function, &found, sizeof function);
        return function;
    }

    static hook_t find_hook()
    {
        const char* const address = std::getenv("HIPDNN_STUB_HOOK");
        const std::uintptr_t number = address == nullptr ? 0 : std::strtoull(address, nullptr, 16);
        hook_t function = nullptr;
        std::memcpy(&function, &number, sizeof function);
        return function;
    }

    void log(const char* line)
    {
        const hipdnnCallback_t function = callback;
        if (function != nullptr) {
            function(HIPDNN_SEV_INFO, line);
        }
    }

    void call_back(const char* from)
    {
        if (hook != nullptr) {
            hook(from);
        }
    }

    std::atomic<hipdnnCallback_t> callback;
    const hook_t hook;
    std::atomic<bool> stop{false};
    std::vector<std::thread> running;
};

threads all;
} // namespace

extern "C" void stub_log_to(hipdnnCallback_t function) { all.set_callback(function); }
