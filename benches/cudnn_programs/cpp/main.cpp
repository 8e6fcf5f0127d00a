/* Runs each case in a process of its own, and prints a line of JSON for it. Arguments: words that the names of cases contain, a limit in
 * seconds, and which part of how many. */
#include "catch2/catch_test_macros.hpp"

#include <csignal>
#include <ctime>
#include <sys/wait.h>
#include <unistd.h>

static int run(const cases::Case& one, std::string& words)
{
    try {
        do {
            cases::wrong().clear();
            cases::places().next = 0;
            one.run();
            words = cases::wrong();
        } while (words.empty() && cases::advance());
        return words.empty() ? 0 : 1;
    } catch (const cases::Skip& skip) {
        words = skip.words;
        return 2;
    } catch (const cases::Fail& fail) {
        words = fail.words;
    } catch (const std::exception& error) {
        words = error.what();
    }
    return 1;
}

int main(int count, char** words)
{
    const char* filter = count > 1 ? words[1] : "";
    const unsigned limit = count > 2 ? static_cast<unsigned>(std::atoi(words[2])) : 60;
    const size_t part = count > 3 ? static_cast<size_t>(std::atoi(words[3])) : 0;
    const size_t parts = count > 4 ? static_cast<size_t>(std::atoi(words[4])) : 1;
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    size_t place = 0;
    for (const cases::Case& one : cases::all()) {
        if (std::strstr(one.name, filter) == nullptr || place++ % parts != part) {
            continue;
        }
        const std::time_t start = std::time(nullptr);
        const pid_t child = fork();
        if (child == 0) {
            alarm(limit);
            std::string reason;
            const int outcome = run(one, reason);
            for (char& letter : reason) {
                letter = letter == '"' || letter == '\\' || letter < ' ' ? '\'' : letter;
            }
            static const char* const outcomes[] = {"passed", "failed", "skipped"};
            std::printf("\n{\"case\": \"%s\", \"outcome\": \"%s\", \"seconds\": %ld, \"reason\": \"%.400s\"}\n",
                        one.name, outcomes[outcome], static_cast<long>(std::time(nullptr) - start), reason.c_str());
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) {
            std::printf("\n{\"case\": \"%s\", \"outcome\": \"failed\", \"seconds\": %ld, \"reason\": \"%s\"}\n",
                        one.name, static_cast<long>(std::time(nullptr) - start),
                        WTERMSIG(status) == SIGALRM ? "longer than its limit" : strsignal(WTERMSIG(status)));
        }
    }
}
