package job

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func good(t *testing.T) map[string]any {
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"schema": 1, "endpoints": []any{map[string]any{"url": "http://127.0.0.1:9000", "region": "us-east-1", "addressing": "path"}},
		"buckets": []string{"b"}, "operations": []any{map[string]any{"op": "GET"}}, "workers": 2, "records": "ops.parquet",
		"object_size": 100, "bodies": []string{body}, "objects": map[string]any{"key": []string{"k"}, "bucket": []int{0}, "body": []int{0}},
	}
}

func parsed(t *testing.T, values map[string]any) (*Job, error) {
	text, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(text)
}

func TestDefaults(t *testing.T) {
	j, err := parsed(t, good(t))
	if err != nil {
		t.Fatal(err)
	}
	if j.Balance != "worker" || j.Payload != "unsigned" || j.Parallel != 1 || j.TimeoutS != 30 || j.Operations[0].Share != 1 || j.Rate != 0 {
		t.Errorf("defaults are %+v", j)
	}
	if err := j.Times([]byte(`{"start_ns": 5, "deadline_ns": 9}`)); err != nil || j.StartNs != 5 || j.DeadlineNs != 9 {
		t.Errorf("times: %v %d %d", err, j.StartNs, j.DeadlineNs)
	}
	if err := j.Times([]byte(`{"start_ns": 9, "deadline_ns": 5}`)); err == nil {
		t.Error("a deadline before the start passes")
	}
}

// A user error is one line with the name of the field.
func TestRefused(t *testing.T) {
	put := []any{map[string]any{"op": "PUT"}}
	folder := []any{map[string]any{"bucket": 0, "prefix": "f/"}}
	ranges := []any{map[string]any{"op": "GET_RANGE"}}
	for _, c := range []struct {
		name, says string
		change     map[string]any
	}{
		{"unknown field", `unknown field "worker"`, map[string]any{"worker": 1}},
		{"wrong type", "workers", map[string]any{"workers": "many"}},
		{"schema", "schema = 2", map[string]any{"schema": 2}},
		{"page", "page_size = 1001", map[string]any{"page_size": 1001}},
		{"keys", "list_keys = 0", map[string]any{"lists": folder}},
		{"many keys", "list_keys = 1000001", map[string]any{"lists": folder, "list_keys": 1_000_001}},
		{"deep", "list_depth = 3", map[string]any{"lists": folder, "list_keys": 1000, "list_depth": 3}},
		{"folder", "lists[0].bucket = 1", map[string]any{"lists": []any{map[string]any{"bucket": 1}}, "list_keys": 1}},
		{"no endpoint", "endpoints", map[string]any{"endpoints": []any{}}},
		{"url", "endpoints[0].url = ftp://x", map[string]any{"endpoints": []any{map[string]any{"url": "ftp://x", "region": "r", "addressing": "path"}}}},
		{"addressing", "addressing", map[string]any{"endpoints": []any{map[string]any{"url": "http://x", "region": "r", "addressing": "auto"}}}},
		{"no operation", "operations", map[string]any{"operations": []any{}}},
		{"unknown operation", "operations[0].op = COPY", map[string]any{"operations": []any{map[string]any{"op": "COPY"}}}},
		{"no worker", "workers = 0", map[string]any{"workers": 0}},
		{"no objects", "objects", map[string]any{"objects": map[string]any{}}},
		{"columns", "columns of 1 keys", map[string]any{"objects": map[string]any{"key": []string{"k"}, "bucket": []int{}}}},
		{"bucket", "objects.bucket[0] = 3", map[string]any{"objects": map[string]any{"key": []string{"k"}, "bucket": []int{3}}}},
		{"body", "objects.body[0] = 1", map[string]any{"objects": map[string]any{"key": []string{"k"}, "bucket": []int{0}, "body": []int{1}}}},
		{"size of a body", "has 100 B, but object_size = 99 B", map[string]any{"object_size": 99}},
		{"no body", "cannot be read", map[string]any{"bodies": []string{"nowhere"}}},
		{"no place", "PUT needs at least one of each", map[string]any{"operations": put}},
		{"short object", "are not in an object of 100 B", map[string]any{"operations": ranges, "range": map[string]any{"length": 101}}},
		{"short object at", "are not in an object of 100 B", map[string]any{"operations": ranges, "range": map[string]any{"length": 50, "offset": "51"}}},
		{"offset", "range.offset = middle", map[string]any{"operations": ranges, "range": map[string]any{"length": 1, "offset": "middle"}}},
		{"batch", "batch = 1001", map[string]any{"batch": 1001}},
		{"payload", "payload = md5", map[string]any{"payload": "md5"}},
		{"balance", "balance = luck", map[string]any{"balance": "luck"}},
		{"parts", "part_size = -1", map[string]any{"part_size": -1}},
		{"times", "the deadline must be after the start", map[string]any{"start_ns": 5, "deadline_ns": 4}},
		{"no records", "records", map[string]any{"records": ""}},
	} {
		values := good(t)
		for k, v := range c.change {
			values[k] = v
		}
		_, err := parsed(t, values)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: says %v", c.name, err)
		}
	}
	if _, err := Parse([]byte("no json")); err == nil {
		t.Error("text passes as a job")
	}
	if _, err := Parse([]byte("{} {}")); err == nil {
		t.Error("two jobs pass as one")
	}
	values := good(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if _, err := parsed(t, values); err == nil || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("credentials: says %v", err)
	}
}

func TestFoldersOfKeysAtTheirBounds(t *testing.T) {
	for _, c := range [][4]int{{1, 0, 0, 1}, {10, 0, 1, 1}, {11, 1, 1000, 2}, {1_000_000, 5, 1000, 6}} {
		values := good(t)
		values["lists"] = []any{map[string]any{"bucket": 0, "prefix": "f/"}}
		values["list_keys"], values["list_depth"], values["page_size"] = c[0], c[1], c[2]
		if j, err := parsed(t, values); err != nil || j.ListDigits() != c[3] {
			t.Errorf("%v: %v", c, err)
		}
	}
}
