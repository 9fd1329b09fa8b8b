package tracedb

import "database/sql"

// View is a view of the traces that this version writes.
type View struct {
	Name    string
	SQL     string
	Columns []string
}

// Views returns all views, by name.
func Views() (all []View, err error) {
	err = withEmpty(func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(background, `SELECT v.name, v.sql, c.name FROM sqlite_schema v, pragma_table_info(v.name) c
			WHERE v.type = 'view' ORDER BY v.name, c.cid`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name, text, column string
			if err := rows.Scan(&name, &text, &column); err != nil {
				return err
			}
			if len(all) == 0 || all[len(all)-1].Name != name {
				all = append(all, View{Name: name, SQL: text})
			}
			last := &all[len(all)-1]
			last.Columns = append(last.Columns, column)
		}
		return rows.Err()
	})
	return all, err
}
