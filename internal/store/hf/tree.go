package hf

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Bounds of a listing, far above what a model repository has.
const (
	maxFiles = 1_000_000
	maxPages = 10_000
	maxPage  = 64 << 20 // bytes of one page or other answer of the API
)

// treeItem is one entry of the tree API. xetHash, which it may have too, is a
// hash of another kind.
type treeItem struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// tree lists the commit, page by page.
func (h *Hub) tree(ctx context.Context) ([]file, error) {
	files := []file{} // not nil: an empty repository is listed too
	seen := map[string]bool{}
	for query := "recursive=true"; query != ""; {
		if seen[query] {
			return nil, fmt.Errorf("the hub's pages lead back to ?%.80s", query)
		}
		if seen[query] = true; len(seen) > maxPages {
			return nil, fmt.Errorf("the hub's listing has more than %d pages", maxPages)
		}
		var page []treeItem
		header, err := h.client.json(ctx, "/api/models/"+h.repo+"/tree/"+h.commit, query, &page)
		if err != nil {
			return nil, err
		}
		if files, err = appendPage(files, page); err != nil {
			return nil, err
		}
		if query, err = nextQuery(header); err != nil {
			return nil, err
		}
	}
	return sorted(files)
}

func appendPage(files []file, page []treeItem) ([]file, error) {
	for _, item := range page {
		switch item.Type {
		case "directory":
			continue
		case "file":
		default:
			return nil, fmt.Errorf("%.200q is a %.40q, which drkit does not know how to copy", item.Path, item.Type)
		}
		lfs, lfsSize := "", int64(0)
		if item.LFS != nil {
			lfs, lfsSize = item.LFS.OID, item.LFS.Size
			if lfs == "" {
				return nil, fmt.Errorf("%.200q is an LFS file without a digest", item.Path)
			}
		}
		f, err := listedFile(item.Path, item.Size, item.OID, lfs, lfsSize)
		if err != nil {
			return nil, fmt.Errorf("the hub's listing: %w", err)
		}
		if files = append(files, f); len(files) > maxFiles {
			return nil, fmt.Errorf("the hub lists more than %d files", maxFiles)
		}
	}
	return files, nil
}

var linkForm = regexp.MustCompile(`<([^>]*)>([^<]*)`)

// nextQuery is the query of the page that a Link header calls next, or "". Its
// host and path are not followed: a mirror passes the hub's own on, and the
// token must not go there.
func nextQuery(h http.Header) (string, error) {
	for _, m := range linkForm.FindAllStringSubmatch(strings.Join(h.Values("Link"), ", "), -1) {
		if !strings.Contains(strings.ReplaceAll(m[2], `"`, ""), "rel=next") {
			continue
		}
		u, err := url.Parse(m[1])
		if err != nil || u.RawQuery == "" {
			return "", fmt.Errorf("the hub's link to the next page has no query (%.80q)", m[1])
		}
		return u.RawQuery, nil
	}
	return "", nil
}
