/* SPDX-License-Identifier: MIT */

/* The trace of CPU engines: an execution has its steps in it, and the plan says what computes them. What else is in traces, and that no event
 * is lost, is shown by host/trace.c. */
#include "../again.h"
#include "../fixture.h"

static int child(void)
{
    hipdnnHandle_t handle = make_handle();
    hipdnnBackendDescriptor_t graph = make_graph(handle);
    hipdnnBackendDescriptor_t plan = make_plan(graph);
    buffers data;
    fill_buffers(&data, plan);
    hipdnnBackendDescriptor_t pack = make_pack(&data);
    CHECK_OK(hipdnnBackendExecute(handle, plan, pack));
    CHECK(is_convolved(&data));
    return check_result();
}

static double number(const char* line, const char* name)
{
    const char* const at = strstr(line, name);
    CHECK(at != NULL);
    return at == NULL ? 0 : strtod(at + strlen(name), NULL);
}

int main(int count, char** words)
{
    static const char path[] = "trace.json";
    static char text[1 << 20];
    if (count > 1) {
        return child();
    }
    setenv("HIPDNN_TRACE_FILE", path, 1);
    REQUIRE(run_again(words[0], "child", NULL) == 0);
    read_text(path, text, sizeof text);
    remove(path);
    const char* const plan = strstr(text, "\"name\":\"plan CPU_ENGINE\"");
    REQUIRE(plan != NULL);
    CHECK(strstr(plan, "\"algorithm\":\"\"") == NULL);
    CHECK(number(plan, "\"operations\":") > 0);
    const char* const step = strstr(text, "\"cat\":\"step\",\"name\":\"");
    const char* const execution = strstr(text, "\"cat\":\"execute\",\"name\":\"CPU_ENGINE\"");
    REQUIRE(step != NULL && execution != NULL);
    /* One lies in the other. */
    const double begin = number(step, "\"ts\":");
    const double outer = number(execution, "\"ts\":");
    CHECK(begin >= outer);
    CHECK(begin + number(step, "\"dur\":") <= outer + number(execution, "\"dur\":") + 0.002);
    return check_result();
}
