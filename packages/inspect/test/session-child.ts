// Runs a session in a process of its own and keeps writing to it until it is killed: each transaction writes a pair of rows.
import process from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'

const [root = '', id = ''] = process.argv.slice(2)
const session = await openSession({ id, root, logger: silentLogger })
await session.workspace.writeFile('files/report.txt', 'a report')
await session.blobs.put(Buffer.from('a blob'), 'text/plain')
const { db } = session.storage('main')
db.exec('CREATE TABLE pairs (turn INTEGER, side TEXT, padding BLOB)')
const insert = db.prepare("INSERT INTO pairs VALUES (?, 'left', randomblob(3000)), (?, 'right', randomblob(3000))")
for (let turn = 1; ; turn++) {
  insert.run(turn, turn)
  if (turn % 40 === 0) db.pragma('wal_checkpoint(TRUNCATE)')
  if (turn % 10 === 0) await session.bus.emit('agent.turn.end', { turn_id: `t${turn}`, input_id: '' } as never)
  if (turn === 50) process.send?.('busy')
  await delay(2)
}
