import { spawnSync } from 'node:child_process'
import type { Bench } from '../bench.ts'
import { alternate, compare, elapsedMs } from '../measure.ts'
import { against, oursAtMost, type Row } from '../row.ts'

const ENGINE = '@nexus/engine'
const MODULES = [
  '@nexus/objectstore-fs',
  '@nexus/objectstore-s3',
  '@nexus/objectstore-gcs',
  '@nexus/objectstore-azure',
  '@nexus/objectstore-memory-test',
] as const
const CLOUD_SDK = /node_modules\/(?:\.pnpm\/)?@(?:aws-sdk|azure|smithy|google-cloud)[+/]/
/** Bare imports are found from here on: the package's own directory. */
const HOME = new URL('..', import.meta.url)

/** Whole processes that import one package of the build and end, beside one that imports nothing. */
export const importBench: Bench = {
  id: 'P10',
  title: 'import times',
  async run({ quick }) {
    const names = ['bare', ENGINE, ...MODULES]
    const contenders = Object.fromEntries(names.map((name) => [name, () => elapsedMs(() => runProcess(name))]))
    const samples = await alternate(contenders, { rounds: quick ? 3 : 21 })
    const bare = samples['bare'] as number[]
    return [ENGINE, ...MODULES].map((name): Row => {
      const extra = (samples[name] as number[]).map((value, round) => value - (bare[round] as number))
      const clouds = graphOf(name).filter((url) => CLOUD_SDK.test(url))
      if (clouds.length > 0) throw new Error(`${name} imports a cloud SDK: ${clouds[0]}`)
      return {
        id: 'P10',
        what: `import of ${name}, beyond bare Node`,
        unit: 'ms',
        ...against('bare Node', compare(extra, bare)),
        goals: [oursAtMost(name === ENGINE ? 15 : 5)],
        note: 'no cloud SDK among its modules',
      }
    })
  },
}

function runProcess(name: string): void {
  evaluate(name === 'bare' ? '' : `import '${name}'`)
}

function evaluate(source: string, ...flags: string[]): string {
  const args = [...flags, '--input-type=module', '--eval', source]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: HOME, encoding: 'utf8' })
  if (status !== 0) throw new Error(`a child process failed: ${stderr}`)
  return stdout
}

/** Every module that an import loads: ES modules as their loader resolves them, the others from its cache. */
function graphOf(name: string): string[] {
  const hooks = `import { writeSync } from 'node:fs'
  export async function resolve(specifier, context, next) {
    const found = await next(specifier, context)
    writeSync(1, found.url + '\\n')
    return found
  }`
  const source = `import { createRequire, register } from 'node:module'
    register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}))
    await import('${name}')
    for (const path of Object.keys(createRequire(process.cwd() + '/').cache)) console.log(path)`
  const urls = evaluate(source).split('\n')
  if (!urls.some((url) => url.endsWith('.js'))) throw new Error(`nothing was seen of what ${name} imports`)
  return urls
}
