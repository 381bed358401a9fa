import { randomFillSync } from 'node:crypto'
import { execFileSync, spawnSync } from 'node:child_process'
import { createWriteStream, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3'
import { silentLogger } from '@nexus/engine'
import { forEachBounded, objectStoreConfig, open, type Backend } from '@nexus/objectstore'
import type { Bench } from '../bench.ts'
import { BenchSession } from '../bench-session.ts'
import { prepareEngine } from '../local-engine.ts'
import { alternate, compare, elapsedMs } from '../measure.ts'
import { against, ratioAtMost, type Row } from '../row.ts'
import { bareClient, createS3Bucket, s3Core, type S3Store } from '../s3-store.ts'
import type { Scratch } from '../scratch.ts'
import { LARGE, SMALL } from '../session-shape.ts'

const OBJECT_BYTES = 64 * 1024
/** Where the bare SDK levels off. */
const PUTS_IN_FLIGHT = 32
const GETS_IN_FLIGHT = 16

/** The s3 module on a real store: many small objects beside the bare SDK, whole sessions beside `aws s3 sync`. */
export const s3Bench: Bench = {
  id: 'P8',
  title: 's3 module',
  async run({ scratch, quick }) {
    const store = await createS3Bucket(scratch.dir('p8'))
    if (store === undefined) {
      process.stderr.write('P8 needs a store: NEXUS_TEST_S3_ENDPOINT names none\n')
      return []
    }
    const rows = await objectRows(store, scratch, quick)
    return [...rows, ...(await treeRows(store, scratch, quick))]
  },
}

/** What a run of the work costs: time, and the CPU of this process. */
interface Cost {
  wallMs: number
  cpuMs: number
}

async function costOf(work: () => Promise<unknown>): Promise<Cost> {
  const before = process.cpuUsage()
  const wallMs = await elapsedMs(work)
  const { user, system } = process.cpuUsage(before)
  return { wallMs, cpuMs: (user + system) / 1000 }
}

async function objectRows(store: S3Store, scratch: Scratch, quick: boolean): Promise<Row[]> {
  const count = quick ? 100 : 1000
  const source = scratch.memoryDir('p8-source', 2 * count * OBJECT_BYTES)
  const names = Array.from({ length: count }, (_, n) => `objects/${n}`)
  const pathOf = (name: string): string => join(source, name.replace('/', '-'))
  const bytes = Buffer.alloc(OBJECT_BYTES)
  for (const name of names) writeFileSync(pathOf(name), randomFillSync(bytes))
  const { endpoint, bucket, credentialsFile } = store
  const config = objectStoreConfig({ backend: 's3', endpoint, bucket, credentialsFile })
  const backend = (await open(config, { logger: silentLogger })) as Required<Backend>
  const client = bareClient(store, PUTS_IN_FLIGHT)
  const into = (): string => scratch.memoryDir('p8-into', count * OBJECT_BYTES)
  const costs: Record<string, Cost[]> = {}
  const noted = (kind: string, work: () => Promise<unknown>) => async (): Promise<number> => {
    const cost = await costOf(work)
    ;(costs[kind] ??= []).push(cost)
    return cost.wallMs
  }
  const rounds = quick ? 2 : 7
  await alternate(
    {
      ours: noted('put', () =>
        forEachBounded(names, PUTS_IN_FLIGHT, (name) => backend.put(`ours/${name}`, pathOf(name))),
      ),
      bare: noted('put-bare', () =>
        forEachBounded(names, PUTS_IN_FLIGHT, (name) => putBare(client, bucket, `bare/${name}`, pathOf(name))),
      ),
    },
    { rounds },
  )
  await alternate(
    {
      ours: noted('get', async () => {
        const dir = into()
        await forEachBounded(names, GETS_IN_FLIGHT, (name, n) => backend.get(`ours/${name}`, join(dir, String(n))))
      }),
      bare: noted('get-bare', async () => {
        const dir = into()
        await forEachBounded(names, GETS_IN_FLIGHT, (name, n) =>
          getBare(client, bucket, `bare/${name}`, join(dir, String(n))),
        )
      }),
    },
    { rounds },
  )
  await backend.close()
  client.destroy()
  return (['put', 'get'] as const).flatMap((kind) =>
    (['wallMs', 'cpuMs'] as const).map((figure): Row => {
      // The first round of each is the one that warms up.
      const samples = (name: string): number[] => (costs[name] ?? []).slice(1).map((cost) => cost[figure])
      return {
        id: 'P8',
        what: `${kind} of ${count} objects of 64 KiB, ${figure === 'wallMs' ? 'wall' : 'CPU'}`,
        unit: 'ms',
        ...against('bare SDK', compare(samples(kind), samples(`${kind}-bare`))),
        goals: [ratioAtMost(1.15)],
      }
    }),
  )
}

async function putBare(client: S3Client, bucket: string, key: string, path: string): Promise<void> {
  await client.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: await readFile(path) }))
}

async function getBare(client: S3Client, bucket: string, key: string, path: string): Promise<void> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }))
  await pipeline(Body as Readable, createWriteStream(path))
}

async function treeRows(store: S3Store, scratch: Scratch, quick: boolean): Promise<Row[]> {
  const shape = quick ? SMALL : LARGE
  const hasAws = spawnSync('aws', ['--version']).status === 0
  const env = {
    ...process.env,
    AWS_ACCESS_KEY_ID: store.accessKeyId,
    AWS_SECRET_ACCESS_KEY: store.secretAccessKey,
    AWS_DEFAULT_REGION: 'us-east-1',
  }
  const sync = (from: string, to: string): void => {
    execFileSync('aws', ['--endpoint-url', store.endpoint, 's3', 'sync', '--only-show-errors', from, to], { env })
  }
  const origin = scratch.dir('p8-origin')
  let sessionId = ''
  let local = ''
  let syncs = 0
  const upload = await alternate(
    {
      ours: async () => {
        const session = await BenchSession.open({ root: join(origin, String(syncs++)), core: s3Core(store) })
        const wallMs = await session.grow(shape)
        sessionId = session.engine.sessionId
        local = session.engine.session.dir
        await session.engine.stop()
        return wallMs
      },
      aws: () => (hasAws ? elapsedMs(() => sync(local, `s3://${store.bucket}/aws/${syncs++}`)) : 0),
    },
    { rounds: quick ? 1 : 3 },
  )
  const last = `s3://${store.bucket}/sessions/${sessionId}`
  const restore = await alternate(
    {
      ours: () => resumeMs(sessionId, store, scratch.dir('p8-host')),
      aws: () => (hasAws ? elapsedMs(() => sync(last, scratch.dir('p8-aws'))) : 0),
    },
    { rounds: quick ? 1 : 3 },
  )
  const rowOf = (what: string, samples: { ours: number[]; aws: number[] }, goal: number): Row => ({
    id: 'P8',
    what: `${what} ${shape.what}`,
    unit: 'ms',
    ...(hasAws
      ? { ...against('aws s3 sync', compare(samples.ours, samples.aws)), goals: [ratioAtMost(goal)] }
      : { ours: Math.min(...samples.ours), goals: [], note: 'no aws command on this machine to stand beside it' }),
  })
  return [rowOf('first commit of', upload, 0.667), rowOf('boot that hydrates', restore, 0.333)]
}

async function resumeMs(sessionId: string, store: S3Store, root: string): Promise<number> {
  const engine = await prepareEngine({ root, core: s3Core(store), engine: { recallSessionId: sessionId } })
  const wallMs = await elapsedMs(() => engine.boot())
  await engine.abandon()
  await engine.stop()
  return wallMs
}
