import { chmod, mkdir, rename, rmdir, symlink, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Plugin, PluginContext } from '@nexus/engine'
import { bytesOf } from './content.ts'
import type { Deed, Turn } from './deed.ts'

export const WORKER_ID = 'nexus.proof.worker'
export const HISTORY_PATH = 'context/conversation.jsonl'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS rows (id TEXT PRIMARY KEY, text TEXT);
  CREATE TABLE IF NOT EXISTS blobs (sha256 TEXT PRIMARY KEY, media_type TEXT);
`

/** A plugin that does what its input says: a turn, as JSON. */
export function createWorker(onTrouble: (error: unknown) => void): Plugin {
  return {
    id: WORKER_ID,
    name: 'Worker',
    version: '1.0.0',
    init(context: PluginContext): void {
      context.storage('session').db.exec(SCHEMA)
      const shared = context.storage('app')
      context.bus.subscribe('io.input', async (event) => {
        const { id, deeds } = JSON.parse(event.payload.content) as Turn
        const turn = { turn_id: id, session_id: context.session.id }
        await event.emit('agent.turn.start', turn)
        try {
          for (const deed of deeds) await doDeed(deed, context)
          shared.put('last', id)
        } catch (error) {
          onTrouble(error)
        }
        await event.emit('agent.turn.end', turn)
      })
    },
  }
}

async function doDeed(deed: Deed, context: PluginContext): Promise<void> {
  const { session } = context
  const own = context.storage('session')
  const absolute = (path: string): string => join(session.filesDir, path)
  switch (deed.do) {
    case 'say':
      return session.appendFile(HISTORY_PATH, `${JSON.stringify(deed.text)}\n`)
    case 'write':
      return session.writeFile(`files/${deed.path}`, bytesOf(deed.piece))
    case 'append':
      return session.appendFile(`files/${deed.path}`, bytesOf(deed.piece))
    case 'delete':
      return session.deleteFile(`files/${deed.path}`)
    // What a tool of the agent does past the helpers.
    case 'unlink':
      return unlink(absolute(deed.path))
    case 'rename':
      await makeDir(dirname(absolute(deed.to)))
      return rename(absolute(deed.path), absolute(deed.to))
    case 'chmod':
      return chmod(absolute(deed.path), deed.mode)
    case 'link':
      await makeDir(dirname(absolute(deed.path)))
      return symlink(deed.target, absolute(deed.path))
    case 'make-dir':
      return makeDir(absolute(deed.path))
    case 'remove-dir':
      return rmdir(absolute(deed.path))
    case 'put-row':
      own.db.prepare('INSERT OR REPLACE INTO rows VALUES (?, ?)').run(deed.id, deed.text)
      return
    case 'delete-row':
      own.db.prepare('DELETE FROM rows WHERE id = ?').run(deed.id)
      return
    case 'put-value':
      return own.put(deed.key, deed.text)
    case 'put-blob': {
      const { sha256, mediaType } = await (await session.blobStore()).put(bytesOf(deed.piece), deed.mediaType)
      own.db.prepare('INSERT OR IGNORE INTO blobs VALUES (?, ?)').run(sha256, mediaType)
    }
  }
}

async function makeDir(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
}
