//go:build tools

// Package parts names the program, so that go.mod has all that it is built of.
package parts

import _ "github.com/versity/versitygw/cmd/versitygw"
