import { describe, it } from 'node:test'
import '../src/index.js'
import { defineSuites } from '../src/suites.js'

defineSuites({ describe, it })
