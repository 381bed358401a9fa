import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openSession } from '@nexus/engine'
import { silentLogger } from '@nexus/host'
import { tempDir } from '@nexus/host/testing'
import { memoryBucket, type StoredObject } from '@nexus/objectstore-memory-test'
import { main } from '../src/index.ts'
import { recorded } from './recorded-output.ts'

/** A machine with a bucket: its data root, and a configuration that names both. */
export interface Machine {
  root: string
  sessionsRoot: string
  bucket: string
  /** What is in the bucket, by key. */
  objects: Map<string, StoredObject>
  config: string
}

export function newMachine(): Machine {
  const root = tempDir()
  const bucket = randomUUID()
  const config = join(root, 'config.yaml')
  const sessionsRoot = join(root, 'sessions')
  const core = { sessions: { root: sessionsRoot }, storage: { root }, object_store: { backend: 'memory-test', bucket } }
  writeFileSync(config, JSON.stringify({ core }))
  return { root, sessionsRoot, bucket, objects: memoryBucket(bucket), config }
}

/** A session of two turns that has ended, here and in the bucket. */
export async function endedSession({ root, bucket }: Machine, id: string): Promise<void> {
  const session = await openSession({ id, root, store: { backend: 'memory-test', bucket }, logger: silentLogger })
  await session.workspace.writeFile('files/report.txt', 'a report')
  await session.blobs.put(Buffer.from('a blob'), 'text/plain')
  session.storage().put('key', 'value')
  for (const turn of ['t1', 't2']) {
    const ids = { turn_id: turn, input_id: `i-${turn}` }
    await session.bus.emit('agent.turn.start', ids as never)
    const call = { id: `c-${turn}`, name: 'write_file', turn_id: turn }
    await session.bus.emit('tool.invoke', { ...call, arguments: { path: `files/${turn}` } })
    await session.workspace.writeFile(`files/${turn}`, turn)
    await session.bus.emit('tool.result', { ...call, output: 'ok' })
    await session.bus.emit('agent.turn.end', ids as never)
  }
  await session.close()
}

/** Runs a command line in this process. */
export async function nexus(
  ...args: string[]
): Promise<{ code: number; lines: string[]; notes: string[]; json: unknown }> {
  const output = recorded()
  const code = await main(args, output)
  const { lines, notes } = output
  return {
    code,
    lines,
    notes,
    get json(): unknown {
      return JSON.parse(lines.join('\n'))
    },
  }
}
