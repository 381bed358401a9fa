import Database from 'better-sqlite3'

// Somebody's tool with a database of its own, writing in a loop until it is killed: <file> <journal mode>
const [path = '', mode = 'wal'] = process.argv.slice(2)
const db = new Database(path)
db.pragma(`journal_mode = ${mode}`)
db.exec('create table if not exists pairs (n integer primary key, twice integer, pad text)')
const insert = db.prepare('insert into pairs values (?, ?, ?)')
let n = 0
const pair = db.transaction(() => {
  // Always two rows: a copy with one of them never existed.
  for (let half = 0; half < 2; half++) insert.run(++n, 2 * n, 'x'.repeat(200))
})
pair()
process.stdout.write('ready\n')
const end = Date.now() + 60_000
// The lock is free for a moment between two transactions, as it is for any tool that does something else too.
const moment = new Int32Array(new SharedArrayBuffer(4))
while (Date.now() < end) {
  pair()
  Atomics.wait(moment, 0, 0, 2)
}
