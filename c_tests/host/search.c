/* SPDX-License-Identifier: MIT */

/* The search for plugins: the default folder, HIPDNN_PLUGIN_DIR, the program's paths, their order and how often. */
#include "host.h"

#include <sys/stat.h>
#include <unistd.h>

static char here[PATH_LENGTH / 4];

/* A symbolic link to a variant, at a path below the test's folder. */
static void link_plugin(const char* name, const char* at)
{
    char target[PATH_LENGTH];
    plugin_path(target, name);
    unlink(at);
    REQUIRE(symlink(target, at) == 0);
}

/* A copy is another file, and so another plugin. */
static void copy_plugin(const char* name, const char* at)
{
    static char bytes[1 << 20];
    char source[PATH_LENGTH];
    plugin_path(source, name);
    FILE* in = fopen(source, "rb");
    FILE* out = fopen(at, "wb");
    REQUIRE(in != NULL && out != NULL);
    const size_t size = fread(bytes, 1, sizeof bytes, in);
    REQUIRE(size > 0 && size < sizeof bytes && fwrite(bytes, 1, size, out) == size);
    fclose(in);
    fclose(out);
}

static void write_file(const char* at, const char* text)
{
    FILE* out = fopen(at, "wb");
    REQUIRE(out != NULL);
    fputs(text, out);
    fclose(out);
}

static const char* absolute(const char* relative)
{
    static char paths[8][PATH_LENGTH];
    static int next;
    char* path = paths[next++ % 8];
    snprintf(path, PATH_LENGTH, "%s/%s", here, relative);
    return path;
}

/* The content of the library's own plugin folder, each followed by a space, and the count. */
static char shipped[1024];
static int64_t shipped_count;

static void read_shipped(void)
{
    const char* const names = getenv("HIPDNN_TEST_SHIPPED");
    REQUIRE(names != NULL && strlen(names) + 1 < sizeof shipped);
    snprintf(shipped, sizeof shipped, "%s ", names);
    for (const char* c = shipped; *c != '\0'; c++) {
        shipped_count += *c == ' ';
    }
}

/* What is loaded with these paths; the rest of the search stays as it is. */
static void expect_loaded(const char* expected, size_t count, const char* const paths[],
                          hipdnnPluginLoadingMode_ext_t mode)
{
    char names[1024];
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(count, paths, mode));
    hipdnnHandle_t handle = make_handle();
    loaded_names(handle, names, sizeof names);
    CHECK_STR(names, expected);
    CHECK_OK(hipdnnDestroy(handle));
}

static void make_folders(void)
{
    const char* const folders[] = {"a", "a/inner", "a-b", "b", "env"};
    for (int64_t i = 0; i < COUNT(folders); i++) {
        mkdir(folders[i], 0777);
    }
    copy_plugin("good", "a/libgood.so");
    copy_plugin("other_good", "a-b/libother_good.so");
    copy_plugin("one_engine", "b/libsame.so");
    copy_plugin("one_engine", "a/inner/libdeep.so");
    copy_plugin("with_workspace", "env/libwith_workspace.so");
    write_file("b/readme.txt", "not a plugin");
    write_file("b/libx.so.1", "not a plugin by its name");
    unlink("b/libbroken.so");
    REQUIRE(symlink("nowhere", "b/libbroken.so") == 0);
    mkdir("b/libfolder.so", 0777);
}

static void test_paths(void)
{
    check_about("paths");
    const char* folder[] = {absolute("b")};
    expect_loaded("same ", 1, folder, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    const char* file[] = {absolute("b/libsame.so")};
    expect_loaded("same ", 1, file, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    /* Without extension: lib and .so are added. */
    const char* bare[] = {absolute("b/same")};
    expect_loaded("same ", 1, bare, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    /* One file by many names is one plugin. */
    link_plugin("other_good", "b/link.so");
    unlink("c.so");
    REQUIRE(symlink("b/libsame.so", "c.so") == 0);
    const char* many[] = {absolute("b/same"), absolute("b/libsame.so"), absolute("c.so"),
                          absolute("a/../b/./libsame.so"), absolute("b/libsame.so")};
    expect_loaded("same ", 5, many, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    unlink("b/link.so");
    /* Sorted by path, component by component, whatever the order they were given in. */
    const char* three[] = {absolute("a-b"), absolute("b"), absolute("a")};
    const char* reversed[] = {absolute("a"), absolute("b"), absolute("a-b")};
    expect_loaded("good other_good same ", 3, three, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    expect_loaded("good other_good same ", 3, reversed, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    /* "" and "." do not load everything in the library's own folder. */
    const char* odd[] = {"", "."};
    expect_loaded("", 2, odd, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
}

static void test_missing(void)
{
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    check_about("missing");
    const struct {
        const char* path;
        const char* part; /* of the last error; NULL: it says where was looked */
    } rows[] = {
        {absolute("no/such/folder/"), NULL},          {absolute("b/missing"), "does not exist"},
        {absolute("b/missing.so"), "does not exist"}, {absolute("b/readme.txt"), "extension"},
        {absolute("b/libx.so.1"), "extension"},       {absolute("b/text.so"), "Failed to load library"},
    };
    write_file("b/text.so", "this is not a shared library");
    for (int64_t i = 0; i < COUNT(rows); i++) {
        check_about("missing, row %d", (int)i);
        REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, &rows[i].path, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
        hipdnnHandle_t handle = NULL;
        check_forget_error();
        REQUIRE_OK(hipdnnCreate(&handle));
        hipdnnGetLastErrorString(text, sizeof text);
        if (rows[i].part == NULL) {
            CHECK_CONTAINS(text, "no engine plugin was found; looked in ");
            CHECK_CONTAINS(text, here);
        } else {
            CHECK_CONTAINS(text, "Error loading plugin from [");
            CHECK_CONTAINS(text, here);
            CHECK_CONTAINS(text, rows[i].part);
        }
        CHECK_EQ(count_loaded(handle), 0);
        CHECK_OK(hipdnnDestroy(handle));
    }
    unlink("b/text.so");
}

/* A file that is still being copied, or was not copied as a whole. */
static void test_cut_short(void)
{
    struct stat whole;
    char text[HIPDNN_ERROR_STRING_MAX_LENGTH];
    const char* path = absolute("b/libcut.so");
    check_about("cut short");
    copy_plugin("good", "b/libcut.so");
    REQUIRE(stat("b/libcut.so", &whole) == 0);
    for (int part = 0; part < 20; part++) {
        copy_plugin("good", "b/libcut.so");
        REQUIRE(truncate("b/libcut.so", whole.st_size * part / 40) == 0);
        REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, &path, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
        hipdnnHandle_t handle = NULL;
        check_forget_error();
        REQUIRE_OK(hipdnnCreate(&handle));
        hipdnnGetLastErrorString(text, sizeof text);
        CHECK_CONTAINS(text, part == 0 ? "too short" : "cut short");
        CHECK_EQ(count_loaded(handle), 0);
        CHECK_OK(hipdnnDestroy(handle));
    }
    unlink("b/libcut.so");
}

static void test_modes(void)
{
    const char* a[] = {absolute("a")};
    const char* b[] = {absolute("b")};
    check_about("modes");
    expect_loaded("", 0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    expect_loaded(shipped, 0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    /* Additive paths add up, beside the default. */
    char names[1024];
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, a, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, b, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    hipdnnHandle_t handle = make_handle();
    CHECK_EQ(count_loaded(handle), shipped_count + 2);
    loaded_names(handle, names, sizeof names);
    CHECK_CONTAINS(names, "good same ");
    CHECK_CONTAINS(names, shipped);
    CHECK_OK(hipdnnDestroy(handle));
    /* Absolute paths replace all of that; additive ones bring the default back. */
    expect_loaded("same ", 1, b, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    REQUIRE_OK(hipdnnSetEnginePluginPaths_ext(1, a, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    handle = make_handle();
    CHECK_EQ(count_loaded(handle), shipped_count + 2);
    CHECK_OK(hipdnnDestroy(handle));
}

static void test_environment(void)
{
    const char* a[] = {absolute("a")};
    check_about("environment");
    expect_loaded("", 0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    /* It replaces the default, and is read whenever plugins are loaded. */
    setenv("HIPDNN_PLUGIN_DIR", absolute("env"), 1);
    expect_loaded("with_workspace ", 0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    setenv("HIPDNN_PLUGIN_DIR", absolute("b"), 1);
    expect_loaded("same ", 0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    /* It may name a file. */
    setenv("HIPDNN_PLUGIN_DIR", absolute("b/libsame.so"), 1);
    expect_loaded("same ", 0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    /* It is one path, not a list. */
    char list[2 * PATH_LENGTH];
    snprintf(list, sizeof list, "%s:%s/", absolute("a"), absolute("b"));
    setenv("HIPDNN_PLUGIN_DIR", list, 1);
    expect_loaded("", 0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    /* Additive paths come beside it, absolute ones instead of it. */
    setenv("HIPDNN_PLUGIN_DIR", absolute("env"), 1);
    expect_loaded("good with_workspace ", 1, a, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    expect_loaded("good ", 1, a, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    /* Relative: from the library's folder. Empty: as if it were not set. */
    expect_loaded("", 0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    setenv("HIPDNN_PLUGIN_DIR", "hipdnn_plugins/engines", 1);
    expect_loaded(shipped, 0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    setenv("HIPDNN_PLUGIN_DIR", "", 1);
    expect_loaded(shipped, 0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
    unsetenv("HIPDNN_PLUGIN_DIR");
    expect_loaded(shipped, 0, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE);
}

/* While anything needs the plugins they stay, and the paths cannot be changed by what was loaded before. */
static void test_reload(void)
{
    const char* a[] = {absolute("a")};
    check_about("reload");
    expect_loaded("good ", 1, a, HIPDNN_PLUGIN_LOADING_ABSOLUTE);
    hipdnnHandle_t first = make_handle();
    hipdnnHandle_t second = make_handle();
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "active handle",
                hipdnnSetEnginePluginPaths_ext(1, a, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    CHECK_OK(hipdnnDestroy(first));
    CHECK_FAILS(HIPDNN_STATUS_NOT_SUPPORTED, "active handle",
                hipdnnSetEnginePluginPaths_ext(1, a, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    hipdnnBackendDescriptor_t graph = make_graph(second);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    CHECK_OK(hipdnnDestroy(second));
    /* Only a plan is left: the paths may change, and it stays usable. */
    const char* b[] = {absolute("b")};
    CHECK_OK(hipdnnSetEnginePluginPaths_ext(1, b, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    CHECK(plan_workspace(plan) >= 0);
    hipdnnHandle_t third = make_handle();
    static buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    /* A handle with other plugins cannot run it. */
    CHECK_STATUS(hipdnnBackendExecute(third, plan, pack), HIPDNN_STATUS_BAD_PARAM);
    drop(pack);
    drop(plan);
    drop(graph);
    CHECK_OK(hipdnnDestroy(third));
    free(data.workspace);
}

int main(void)
{
    REQUIRE(getcwd(here, sizeof here) != NULL);
    unsetenv("HIPDNN_PLUGIN_DIR");
    read_shipped();
    make_folders();
    test_paths();
    test_missing();
    test_cut_short();
    test_modes();
    test_environment();
    test_reload();
    return check_result();
}
