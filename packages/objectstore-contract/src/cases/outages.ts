import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { type Backend, isNexusError, ObjectStore } from '@nexus/objectstore'
import { patternBytes, rejectionOf } from '../assertions.ts'
import { readTree } from '../case-context.ts'
import type { CaseContext, ContractCase } from '../contract-case.ts'

const why =
  'An outage that is told as "nothing there" makes the engine begin an existing session anew, and commit that over the old one.'

/** Demands that reads fail, and that none of them says that the object is not there. */
async function assertUnreachable(what: string, context: CaseContext, backend: Backend): Promise<void> {
  const store = new ObjectStore(backend, { name: 'contract' })
  const directory = context.freshPath()
  const reads: [string, () => Promise<unknown>][] = [
    ['list', () => store.list('s')],
    ['list of everything', () => store.list('')],
    ['hydrate', () => store.hydrate('s', directory)],
    ['get', () => store.get('s/a', context.freshPath())],
    ['listNames', () => store.listNames('s')],
  ]
  for (const [verb, read] of reads) {
    const error = await rejectionOf(`${verb} ${what}`, read)
    assert.ok(
      !isNexusError(error, 'NOT_FOUND'),
      `${verb} ${what} says that the object does not exist: ${String(error)}`,
    )
  }
  assert.deepEqual(await readTree(directory), [], `hydrate ${what} wrote files`)
}

async function opened(open: () => Promise<Backend>): Promise<Backend | undefined> {
  try {
    return await open()
  } catch (error) {
    // A driver may see at open what is wrong: then there is nothing more to ask.
    assert.ok(!isNexusError(error, 'NOT_FOUND'), `opening says that an object does not exist: ${String(error)}`)
    return undefined
  }
}

/** That what can't be read is never told as empty. */
export const outageCases: readonly ContractCase[] = [
  {
    name: 'a missing bucket is an error of every read, and no read of it is a miss',
    rule: 'On a bucket that does not exist list, hydrate, get and listNames reject; the error is not NOT_FOUND, which is about an object.',
    why,
    requires: ['missingBucket'],
    run: async (context) => {
      const backend = await opened(context.open.missingBucket)
      if (backend !== undefined) await assertUnreachable('on a missing bucket', context, backend)
    },
  },
  {
    name: 'no bucket is ever made',
    rule: 'put and putIfAbsent on a bucket that does not exist reject, and it does not exist afterwards.',
    why: 'An unmounted directory or a mistyped name would take the session, and the real bucket never sees it.',
    requires: ['missingBucket'],
    run: async (context) => {
      const backend = await opened(context.open.missingBucket)
      if (backend === undefined) return
      const path = await context.file('content')
      await rejectionOf('put on a missing bucket', () => backend.put('s/a', path))
      if (backend.putIfAbsent !== undefined) {
        await rejectionOf('putIfAbsent on a missing bucket', async () => backend.putIfAbsent?.('s/a', path))
      }
      await rejectionOf('list after a put on a missing bucket', () => backend.list(''))
    },
  },
  {
    name: 'a refusal is an error of every call, and no read of it is a miss',
    rule: 'With credentials that the store refuses every call rejects; the error is not NOT_FOUND and no listing is empty.',
    why,
    requires: ['refused'],
    run: async (context) => {
      const backend = await opened(context.open.refused)
      if (backend === undefined) return
      await assertUnreachable('with refused credentials', context, backend)
      const path = await context.file('content')
      await rejectionOf('put with refused credentials', () => backend.put('s/a', path))
    },
  },
  {
    name: 'a bucket that is taken away is an error, and is not made again',
    rule: 'When the bucket of an open backend is gone, reads and writes reject, none as NOT_FOUND, and a put does not bring it back.',
    why: 'A mount that is lost while a session runs would be replaced by an empty directory beneath it.',
    requires: ['removeBucket'],
    run: async (context) => {
      await context.store('s/a', 'content')
      await context.removeBucket()
      await assertUnreachable('after the bucket is gone', context, context.backend)
      const path = await context.file('content')
      await rejectionOf('put after the bucket is gone', () => context.backend.put('s/b', path))
      await assertUnreachable('after a put into a bucket that is gone', context, context.backend)
    },
  },
  {
    name: 'putIfAbsent whose answer is lost does not say that the key was taken',
    rule: 'One attempt: when its answer is lost, putIfAbsent rejects, and through ObjectStore as OUTCOME_UNKNOWN. It never resolves with false.',
    why: 'A second attempt is told "exists" about the first one\'s own object: a host would give up the commit it has just made.',
    requires: ['lostAnswer', 'putIfAbsent'],
    run: async (context) => {
      const store = new ObjectStore(await context.open.lostAnswer(), { name: 'contract' })
      const path = await context.file('content')
      const outcome = await store.putIfAbsent('s/a', path).then(String, (error: unknown) => error)
      const isUnknown = isNexusError(outcome, 'OUTCOME_UNKNOWN')
      assert.ok(isUnknown, `putIfAbsent whose answer is lost gave ${String(outcome)}, and not OUTCOME_UNKNOWN`)
    },
  },
  {
    name: 'a download that is cut is never taken for the object',
    rule: 'Fewer bytes than the store declared are an error, also when the connection ends in good order. What arrived is not the size.',
    why: 'Half a database under its name opens, and fails in the middle of a turn.',
    requires: ['cutDownloads'],
    run: async (context) => {
      const backend = await context.open.cutDownloads()
      const bytes = patternBytes(300_000, 12)
      await backend.put('s/f', await context.file(bytes))
      const directory = context.freshPath()
      await rejectionOf('hydrate of a cut download', () => backend.hydrate('s', directory))
      assert.deepEqual(await readTree(directory), [], 'a cut download was written')
      if (backend.get === undefined) return
      const path = await context.file('the old content')
      await rejectionOf('get of a cut download', async () => backend.get?.('s/f', path))
      assert.equal(await readFile(path, 'utf8'), 'the old content')
    },
  },
]
