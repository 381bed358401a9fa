// An embedder's program: one import wires the driver, and a session moves from one host to another.
import assert from 'node:assert/strict'
import { mkdtempSync, mkdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSession } from '@nexus/engine'
import './index.js'

const dir = mkdtempSync(join(tmpdir(), 'nexus-outside-'))
mkdirSync(join(dir, 'bucket'))
const store = { backend: 'hex', bucket: join(dir, 'bucket') }
const first = await openSession({ id: 'outside', root: join(dir, 'a'), store })
await first.workspace.writeFile('files/note.md', 'from outside')
first.storage().put('answer', '42')
await first.commit()
await first.abandon()
const second = await openSession({ id: 'outside', root: join(dir, 'b'), store })
assert.equal((await second.workspace.readFile('files/note.md')).toString(), 'from outside')
assert.equal(second.storage().get('answer')?.toString(), '42')
await second.close()
rmSync(dir, { recursive: true })
console.log('resumed')
