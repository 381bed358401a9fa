import type { Plugin, PluginContext } from '@nexus/engine'

export const SCRIBE_ID = 'contract.scribe'
export const ROWS = 500
export const BLOB_MEDIA_TYPE = 'image/x-contract'
export const HISTORY = 'context/conversation.jsonl'

/** What the inputs of the suite make the scribe do. */
export type Errand = 'first turn' | 'second turn' | 'unfinished turn'

/** The bytes of the blob that the first turn stores. */
export function blobBytes(): Buffer {
  return Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * 31) % 251))
}

async function say(context: PluginContext, role: string, content: string): Promise<void> {
  await context.session.appendFile(HISTORY, `${JSON.stringify({ role, content })}\n`)
}

async function firstTurn(context: PluginContext): Promise<void> {
  const { session } = context
  await say(context, 'user', 'Draw me a sheep.')
  await session.writeFile('files/report.md', '# Report\n\nFirst edition.\n')
  await session.writeFile('files/deep/er/data.bin', blobBytes().subarray(0, 4096))
  await session.writeFile('files/empty', '')
  const blob = await (await session.blobStore()).put(blobBytes(), BLOB_MEDIA_TYPE)
  const { db } = context.storage('session')
  const insert = db.prepare('INSERT INTO facts (n, fact, blob) VALUES (?, ?, ?)')
  for (let n = 1; n <= ROWS; n += 1) insert.run(n, `fact ${n}`, n === 1 ? blob.uri : null)
  const shared = context.storage('app').db
  shared.exec('CREATE TABLE IF NOT EXISTS shared (n INTEGER PRIMARY KEY)')
  shared.exec('INSERT INTO shared SELECT coalesce(max(n), 0) + 1 FROM shared')
  await say(context, 'assistant', 'Here is a box; the sheep is inside.')
}

async function secondTurn(context: PluginContext): Promise<void> {
  await say(context, 'user', 'And a fence.')
  await context.session.writeFile('files/report.md', '# Report\n\nSecond edition.\n')
  await context.session.writeFile('files/second.md', 'Only the second turn wrote this.\n')
  context
    .storage('session')
    .db.prepare('INSERT INTO facts (n, fact) VALUES (?, ?)')
    .run(ROWS + 1, 'a second turn')
  await say(context, 'assistant', 'It keeps the sheep in.')
}

/** Three writes after the boundary, which no resume may bring back. */
async function unfinishedTurn(context: PluginContext): Promise<void> {
  await say(context, 'user', 'This was never answered.')
  await context.session.writeFile('files/late.md', 'Written after the last boundary.\n')
  context
    .storage('session')
    .db.prepare('INSERT INTO facts (n, fact) VALUES (?, ?)')
    .run(ROWS + 2, 'too late')
}

const ERRANDS: Readonly<Record<Errand, (context: PluginContext) => Promise<void>>> = {
  'first turn': firstTurn,
  'second turn': secondTurn,
  'unfinished turn': unfinishedTurn,
}

/** The agent of the suite: runs errands, remembers the conversation, and replays it when it comes up. */
export function createScribe(): Plugin {
  return {
    id: SCRIBE_ID,
    name: 'Scribe',
    version: '1.0.0',
    init(context): void {
      context
        .storage('session')
        .db.exec('CREATE TABLE IF NOT EXISTS facts (n INTEGER PRIMARY KEY, fact TEXT, blob TEXT)')
      context.bus.subscribe('io.input', async (event) => {
        const turn = { turn_id: event.id, session_id: context.session.id }
        await event.emit('agent.turn.start', turn)
        await ERRANDS[event.payload.content as Errand](context)
        if (event.payload.content !== 'unfinished turn') await event.emit('agent.turn.end', turn)
      })
    },
    async ready(context): Promise<void> {
      if (!(await context.session.fileExists(HISTORY))) return
      const lines = (await context.session.readFile(HISTORY)).toString().trim().split('\n')
      await context.bus.emit('io.history.replay', { messages: lines.map((line) => JSON.parse(line) as unknown) })
    },
  }
}
