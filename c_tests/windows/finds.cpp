/* The C++ classes find the library at run time: in a folder with a name of three alphabets. The first argument is the folder that has
 * hipdnn_backend.dll. The system's own header, which has ABSOLUTE as a macro without NOGDI, declares the same functions as theirs. */

#define NOGDI
#include <windows.h>

#define HIPDNN_FRONTEND_RUNTIME_LOAD_BACKEND
#include <hipdnn/hipdnn.hpp>

#include "../cpp/check.hpp"

namespace modules = hipdnn::detail::modules;

/* Grüße, Привет, 日本 */
#define NAME L"Gr\u00fc\u00dfe \u041f\u0440\u0438\u0432\u0435\u0442 \u65e5\u672c"

int main(int count, char** words)
{
    CHECK(count == 2);
    const std::wstring folder = L"C:\\found\\" NAME;
    CreateDirectoryW(L"C:\\found", nullptr);
    CreateDirectoryW(folder.c_str(), nullptr);
    const std::wstring source = modules::to_wide(std::string(words[1]) + "\\hipdnn_backend.dll");
    const std::wstring copy = folder + L"\\hipdnn_backend.dll";
    CHECK(CopyFileW(source.c_str(), copy.c_str(), FALSE));

    /* What is read of the environment is UTF-8, whatever the code page; an empty variable is none. */
    std::string value = "before";
    CHECK(SetEnvironmentVariableW(L"HIPDNN_BACKEND_LIBRARY_PATH", folder.c_str()));
    CHECK(modules::read_variable("HIPDNN_BACKEND_LIBRARY_PATH", value));
    CHECK(modules::to_wide(value) == folder);
    CHECK(!modules::read_variable("HIPDNN_NO_SUCH_VARIABLE", value));

    CHECK(modules::is_absolute("C:\\a") && modules::is_absolute("c:/a") && modules::is_absolute("\\\\server\\share"));
    CHECK(!modules::is_absolute("C:a") && !modules::is_absolute("\\a") && !modules::is_absolute("a\\b"));
    CHECK(!modules::is_absolute(""));
    CHECK(modules::parent("C:\\a/b.dll") == "C:\\a" && modules::parent("b.dll").empty());

    hipdnn::HandlePtr handle;
    CHECK_GOOD(hipdnn::create_handle(handle));
    CHECK(modules::to_wide(hipdnn::backend_library_path()) == copy);
    HMODULE loaded = GetModuleHandleW(L"hipdnn_backend.dll");
    wchar_t file[MAX_PATH];
    CHECK(GetModuleFileNameW(loaded, file, MAX_PATH) != 0);
    CHECK(file == copy);
    std::puts("right");
}
